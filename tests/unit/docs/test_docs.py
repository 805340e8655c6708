# SPDX-License-Identifier: Apache-2.0
"""What the documentation says is so."""

import re
from pathlib import Path

import pytest
from tests.modules import load

from gridstead.config import FILES, ClientSettings, Settings

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def reference():
    return load(CHECKOUT / "tools" / "reference.py")


def test_generated_pages_are_fresh(reference):
    stale = [
        n for n, text in reference.pages().items() if (reference.REFERENCE / n).read_text() != text
    ]

    assert stale == [], "run tools/reference.py"


def models(model):
    yield model
    for field in model.model_fields.values():
        for found in re.findall(r"config\.(\w+)", str(field.annotation)):
            inner = getattr(__import__("gridstead.config", fromlist=[found]), found)
            if isinstance(inner, type) and issubclass(inner, Settings):
                yield from models(inner)


@pytest.mark.parametrize("service", sorted(FILES))
def test_every_setting_of_a_service_is_used_in_wiring(service):
    wiring = CHECKOUT / "control" / "gridstead" / "wiring"
    text = "\n".join(file.read_text() for file in wiring.glob("*.py"))
    text += (CHECKOUT / "control/gridstead/cli/service.py").read_text()

    unused = {
        f
        for m in models(FILES[service])
        for f in m.model_fields
        if not re.search(rf"\.{f}\b", text)
    }

    assert unused == set()


def test_every_setting_of_the_command_line_is_used():
    folders = [CHECKOUT / "control/gridstead/cli", CHECKOUT / "control/gridstead/wiring"]
    text = "\n".join(file.read_text() for folder in folders for file in folder.glob("*.py"))

    assert {
        f
        for m in models(ClientSettings)
        for f in m.model_fields
        if not re.search(rf"\.{f}\b", text)
    } == set()


@pytest.mark.parametrize(
    "page",
    sorted(
        p.relative_to(CHECKOUT)
        for p in CHECKOUT.glob("**/*.md")
        if ".venv" not in p.parts and "node_modules" not in p.parts
    ),
)
def test_links_lead_somewhere(page):
    text = (CHECKOUT / page).read_text()
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)

    assert [t for t in targets if not (CHECKOUT / page.parent / t).exists()] == []


def test_the_readme_names_only_targets_that_exist():
    makefile = (CHECKOUT / "Makefile").read_text()
    named = set(re.findall(r"`?make ([a-z]+)`?", (CHECKOUT / "README.md").read_text()))

    assert [
        target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    ] == []
