# SPDX-License-Identifier: Apache-2.0
"""The reference of the settings agrees with the classes that read the files.

The tests read the committed page, and not the generator, and try its claims on the classes.
"""

from __future__ import annotations

import copy
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridstead.cli.check_config import settings_models
from gridstead.config import load, problems

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/settings.md"
MODELS = settings_models()
BEYOND = {"more than": 0, "at least": -1, "at most": 1}

# The Python type of each type on the page, and a value of another type.
TYPES = {
    "float or string": (float | str, []),
    "string": (str, 5),
    "integer": (int, "x"),
    "float": (float, "x"),
    "boolean": (bool, "x"),
    "array of strings": (list, [5]),
    "table of strings": (dict, {"x": 5}),
}


@dataclass(frozen=True)
class Row:
    """A row of the page that describes a key, and not a table."""

    service: str
    key: str
    type: str
    default: str
    example: str

    def in_table(self, document):
        """Return the table of the document that has the key, and the key's name in it."""
        *tables, name = self.key.split(".")
        for table in tables:
            document = document[table.removesuffix("[]")]
            document = document[0] if isinstance(document, list) else document
        return document, name


def sections():
    """Return the text of each section by its file."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def rows():
    """Return the rows of the page about keys."""
    listed = []
    for service, text in sections().items():
        for key, kind, default, _, example in re.findall(
            r"^\| `([^`\[]+(?:\[\]\.[^`]+)?)` \| (.+?) \| (.+?) \| (.+?) \| `(.+)` \|$",
            text,
            re.MULTILINE,
        ):
            listed.append(Row(service, key, kind, default, example))
    return listed


def complete(service):
    """Return the complete example of a file."""
    return tomllib.loads(re.search(r"```toml\n(.*?)```", sections()[service], re.DOTALL)[1])


def changed(row, value):
    """Return the complete example of a file with another value of a key."""
    document = copy.deepcopy(complete(row.service))
    table, name = row.in_table(document)
    table[name] = value
    return document


def leaves(value, path=""):
    """Return the keys of a document as the page writes them."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return leaves(value[0], f"{path}[]")
    if not isinstance(value, dict):
        return {path}
    prefix = f"{path}." if path else ""
    return set().union(*(leaves(item, f"{prefix}{key}") for key, item in value.items()))


def named(row):
    return f"{row.service}:{row.key}"


@pytest.mark.parametrize("service", sorted(MODELS))
def test_the_complete_example_is_loaded_by_the_service(tmp_path, service):
    file = tmp_path / "settings.toml"
    file.write_text(re.search(r"```toml\n(.*?)```", sections()[service], re.DOTALL)[1])

    load(MODELS[service], file)


@pytest.mark.parametrize("service", sorted(MODELS))
def test_the_complete_example_sets_every_key(service):
    loaded = MODELS[service].model_validate(complete(service))

    dumped = loaded.model_dump()
    assert dumped == loaded.model_dump(exclude_unset=True)


@pytest.mark.parametrize("service", sorted(MODELS))
def test_the_rows_are_the_keys_of_the_complete_example(service):
    document = complete(service)
    if service == "supervisor":
        document["labels"] = "a table of the provider's own keys"

    assert {row.key for row in rows() if row.service == service} == leaves(document)


@pytest.mark.parametrize("row", rows(), ids=named)
def test_the_example_of_a_key_is_accepted(row):
    ((name, value),) = tomllib.loads(row.example).items()

    assert name == row.key.rpartition(".")[2]
    assert problems(MODELS[row.service], changed(row, value)) == []


@pytest.mark.parametrize("row", rows(), ids=named)
def test_a_key_is_required_if_the_page_says_so(row):
    document = copy.deepcopy(complete(row.service))
    table, name = row.in_table(document)
    del table[name]

    reported = [problem.what for problem in problems(MODELS[row.service], document)]
    if row.default.startswith("required"):
        assert "missing" in reported
    elif name != "quota_command":  # Required with quota_gib, as its description says.
        assert reported == []


@pytest.mark.parametrize("row", [row for row in rows() if row.default.startswith("`")], ids=named)
def test_an_omitted_key_has_the_default_of_the_page(row):
    document = copy.deepcopy(complete(row.service))
    table, name = row.in_table(document)
    del table[name]
    document.get("storage", {}).pop("quota_gib", None)  # It requires a quota_command.

    loaded = MODELS[row.service].model_validate(document).model_dump(mode="json")
    table, name = row.in_table(loaded)
    assert table[name] == tomllib.loads(f"value = {row.default.strip('`')}")["value"]


@pytest.mark.parametrize("row", rows(), ids=named)
def test_a_value_has_the_type_of_the_page(row):
    table, name = row.in_table(complete(row.service))

    right, wrong = next(TYPES[kind] for kind in TYPES if row.type.startswith(kind))
    assert isinstance(table[name], right)
    assert problems(MODELS[row.service], changed(row, wrong)) != []


def limits():
    """Return each limit of a number: its row, its words and the limit."""
    return [
        pytest.param(row, words, float(limit), id=f"{named(row)}-{words}")
        for row in rows()
        if row.type.startswith(("integer", "float"))
        for words, limit in re.findall(r"(more than|at least|at most) (\d+)", row.type)
    ]


@pytest.mark.parametrize(("row", "words", "limit"), limits())
def test_a_number_beyond_its_limit_is_refused(row, words, limit):
    assert problems(MODELS[row.service], changed(row, limit + BEYOND[words])) != []


@pytest.mark.parametrize(
    ("row", "words", "limit"), [case for case in limits() if case.values[1] != "more than"]
)
def test_a_number_at_its_limit_is_accepted(row, words, limit):
    assert problems(MODELS[row.service], changed(row, limit)) == []
