# SPDX-License-Identifier: Apache-2.0
"""Tests that the generated pages, settings, links and commands of docs/ agree with the code."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest
import typer.main
from tests.modules import load

from gridstead.cli.check_config import CLIENT, settings_models
from gridstead.cli.main import app
from gridstead.config import ClientSettings, Settings

CHECKOUT = Path(__file__).resolve().parents[3]
# Finds the module and the name of a class in an annotation: of "gridstead.config.Chain | None",
# it finds "gridstead.config" and "Chain".
CLASS_OF_SETTINGS = re.compile(r"([\w.]*\bconfig[\w.]*)\.(\w+)")


@pytest.fixture(scope="module")
def reference():
    for name in ("labels_page", "queue_view_page", "settings_page"):  # reference.py imports them.
        load(CHECKOUT / "tools" / f"{name}.py", name)
    return load(CHECKOUT / "tools" / "reference.py")


def test_generated_pages_are_up_to_date(reference):
    stale_pages = []
    for name, text in reference.pages().items():
        if (reference.REFERENCE / name).read_text() != text:
            stale_pages.append(name)

    assert stale_pages == [], "run tools/reference.py"


def models(model):
    """Yield a model of the settings and the models of its tables."""
    yield model
    for field in model.model_fields.values():
        for module, name in CLASS_OF_SETTINGS.findall(str(field.annotation)):
            inner = getattr(importlib.import_module(module), name)
            if isinstance(inner, type) and issubclass(inner, Settings):
                yield from models(inner)


def unused_settings(file_model, source):
    """Return the names of the settings in ``file_model`` that do not occur in ``source``."""
    unused_names = set()
    for model in models(file_model):
        for name in model.model_fields:
            if not re.search(rf"\.{name}\b", source):
                unused_names.add(name)
    return unused_names


def source_of(*paths):
    """Return the text of Python files. A folder adds all Python files in it."""
    texts = []
    for path in map(CHECKOUT.joinpath, paths):
        files = path.rglob("*.py") if path.is_dir() else [path]
        texts.extend(file.read_text() for file in files)
    return "\n".join(texts)


MODELS = settings_models()
RUN_COMMAND_SOURCE = "control/gridstead/cli/service.py"
WIRING = "control/gridstead/wiring"
CVMFS_SOURCES = (RUN_COMMAND_SOURCE, f"{WIRING}/credentials.py", "cvmfs/gridstead_cvmfs/wiring")


@pytest.mark.parametrize("service", sorted(MODELS.keys() - {CLIENT}))
def test_every_setting_of_a_service_is_used(service):
    if service.startswith("cvmfs"):
        source = source_of(*CVMFS_SOURCES)
    else:
        source = source_of(RUN_COMMAND_SOURCE, WIRING)

    assert unused_settings(MODELS[service], source) == set()


def test_every_setting_of_the_client_is_used():
    source = source_of("control/gridstead/cli", WIRING)

    assert unused_settings(ClientSettings, source) == set()


def pages():
    """Return the paths of all Markdown pages, relative to the checkout.

    Git lists the pages. A search in all folders would fail if another process removed a lab's
    folder at the same time.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    result = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True)
    paths = map(Path, result.stdout.splitlines())
    return sorted(path for path in paths if (CHECKOUT / path).exists())


@pytest.mark.parametrize("page", pages())
def test_links_have_existing_targets(page):
    text = (CHECKOUT / page).read_text()
    # [text](target) and [text](target#anchor), but no URLs and no anchors of the same page
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)

    for target in targets:
        assert (CHECKOUT / page.parent / target).exists(), target


def commands_in(text):
    """Yield the words of each gridstead command in inline code and in code blocks."""
    for code in re.findall(r"`(gridstead [^`]+)`", text):
        yield code.split()
    for code in re.findall(r"^[ ]*(?:\$ )?(gridstead .+)$", text, re.MULTILINE):
        yield code.split()


def unknown_word(words, command):
    """Return the first word that should be a subcommand but does not exist, or None."""
    for word in words[1:]:
        commands = getattr(command, "commands", None)
        if commands is None or not re.fullmatch("[a-z][a-z-]*", word):
            return None
        if word not in commands:
            return word
        command = commands[word]
    return None


def pages_of_docs():
    return [page for page in pages() if page.parts[0] == "docs"]


@pytest.mark.parametrize("page", pages_of_docs())
def test_commands_in_the_documentation_exist(page):
    command = typer.main.get_command(app)

    unknown_names = set()
    for words in commands_in((CHECKOUT / page).read_text()):
        if unknown_word(words, command):
            unknown_names.add(" ".join(words))
    assert unknown_names == set()


def test_make_targets_in_the_readme_exist():
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"`?make ([a-z]+)`?", (CHECKOUT / "README.md").read_text()))
    existing = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))

    assert targets - existing == set()
