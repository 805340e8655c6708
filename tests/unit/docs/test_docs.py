# SPDX-License-Identifier: Apache-2.0
"""The documentation agrees with the code."""

import importlib
import re
from pathlib import Path

import pytest
import typer.main
from tests.modules import load

from gridstead.cli.check_config import CLIENT, settings_models
from gridstead.cli.main import app
from gridstead.config import ClientSettings, Settings

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def reference():
    load(CHECKOUT / "tools" / "settings_page.py", "settings_page")  # reference.py imports it.
    return load(CHECKOUT / "tools" / "reference.py")


def test_generated_pages_are_up_to_date(reference):
    stale = []
    for name, text in reference.pages().items():
        if (reference.REFERENCE / name).read_text() != text:
            stale.append(name)

    assert stale == [], "run tools/reference.py"


def models(model):
    """Yield a model of the settings and the models of its tables."""
    yield model
    for field in model.model_fields.values():
        for module, name in re.findall(r"([\w.]*\bconfig[\w.]*)\.(\w+)", str(field.annotation)):
            inner = getattr(importlib.import_module(module), name)
            if isinstance(inner, type) and issubclass(inner, Settings):
                yield from models(inner)


def unused_settings(file_model, source):
    """Return the settings of a file that a source text does not use."""
    unused = set()
    for model in models(file_model):
        unused |= {name for name in model.model_fields if not re.search(rf"\.{name}\b", source)}
    return unused


def source_of(*places):
    """Return the text of some Python files, and of those in some folders."""
    texts = []
    for place in map(CHECKOUT.joinpath, places):
        files = place.rglob("*.py") if place.is_dir() else [place]
        texts.extend(file.read_text() for file in files)
    return "\n".join(texts)


FILES = settings_models()
RUN = "control/gridstead/cli/service.py"
WIRING = "control/gridstead/wiring"
CVMFS = (RUN, f"{WIRING}/credentials.py", "cvmfs/gridstead_cvmfs/wiring")


@pytest.mark.parametrize("service", sorted(FILES.keys() - {CLIENT}))
def test_every_setting_of_a_service_is_used(service):
    source = source_of(*CVMFS) if service.startswith("cvmfs") else source_of(RUN, WIRING)

    assert unused_settings(FILES[service], source) == set()


def test_every_setting_of_the_command_line_is_used():
    source = source_of("control/gridstead/cli", WIRING)

    assert unused_settings(ClientSettings, source) == set()


def pages():
    """Return the paths of all Markdown pages, relative to the checkout."""
    installed = {".venv", "node_modules"}
    paths = [path.relative_to(CHECKOUT) for path in CHECKOUT.glob("**/*.md")]
    return sorted(path for path in paths if installed.isdisjoint(path.parts))


@pytest.mark.parametrize("page", pages())
def test_links_have_existing_targets(page):
    text = (CHECKOUT / page).read_text()
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)

    missing = [target for target in targets if not (CHECKOUT / page.parent / target).exists()]
    assert missing == []


def commands_in(text):
    """Yield the words of each call of gridstead in code: inline, and in lines of blocks."""
    for code in re.findall(r"`(gridstead [^`]+)`", text):
        yield code.split()
    for code in re.findall(r"^[ ]*(?:\$ )?(gridstead .+)$", text, re.MULTILINE):
        yield code.split()


def unknown_word(words, command):
    """Return the word of a call that names no command, or None."""
    for word in words[1:]:
        commands = getattr(command, "commands", None)
        if commands is None or not re.fullmatch("[a-z][a-z-]*", word):
            return None
        if word not in commands:
            return word
        command = commands[word]
    return None


@pytest.mark.parametrize("page", [page for page in pages() if page.parts[0] == "docs"])
def test_commands_in_the_documentation_exist(page):
    command = typer.main.get_command(app)

    unknown = set()
    for words in commands_in((CHECKOUT / page).read_text()):
        if unknown_word(words, command):
            unknown.add(" ".join(words))
    assert unknown == set()


def test_make_targets_in_the_readme_exist():
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"`?make ([a-z]+)`?", (CHECKOUT / "README.md").read_text()))
    existing = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))

    assert targets - existing == set()
