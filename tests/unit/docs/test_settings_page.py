# SPDX-License-Identifier: Apache-2.0
"""Tests that docs/reference/settings.md agrees with the settings classes.

The tests read the committed page. They do not use its generator.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridstead.cli.check_config import settings_models
from gridstead.config import load, setting_diagnostics

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/settings.md"
MODELS = settings_models()
# The number to add to a limit to get the nearest forbidden number. The key is the words before the
# limit on the page. For example, "at least 5" forbids 4, so the number is -1.
DISTANCE_TO_FORBIDDEN = {"more than": 0, "at least": -1, "at most": 1}

# For each type on the page: its Python type, and a value of another type.
TYPES = {
    "float or string": (float | str, []),
    "string": (str, 5),
    "integer": (int, "x"),
    "float": (float, "x"),
    "boolean": (bool, "x"),
    "array of strings": (list, [5]),
    "table of strings": (dict, {"x": 5}),
}
# A row of a table: | `key` | type | default | description | `example` |
# The key may be ``table[].key``, but not ``table[]``.
ROW = re.compile(
    r"^\| `([^`\[]+(?:\[\]\.[^`]+)?)` \| (.+?) \| (.+?) \| (.+?) \| `(.+)` \|$", re.MULTILINE
)


@dataclass(frozen=True)
class Row:
    """A row of the page that describes a key of a settings file, not a whole table."""

    service: str
    key: str
    type: str
    default: str
    example: str

    def find_in(self, document):
        """Return the table in ``document`` that contains the key, and the key's name there."""
        *table_names, key_name = self.key.split(".")
        table = document
        for table_name in table_names:
            table = table[table_name.removesuffix("[]")]
            if isinstance(table, list):
                table = table[0]
        return table, key_name


def sections():
    """Return the text of each section of the page by its title, which is the name of a service."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text(), flags=re.MULTILINE)
    titles = parts[1::2]
    texts = parts[2::2]
    return dict(zip(titles, texts, strict=True))


def rows():
    """Return those rows of the page that describe a key."""
    rows_on_page = []
    for service, text in sections().items():
        for key, value_type, default, _description, example in ROW.findall(text):
            rows_on_page.append(Row(service, key, value_type, default, example))
    return rows_on_page


def example_text(service):
    """Return the complete example of a service's settings file."""
    return re.search(r"```toml\n(.*?)```", sections()[service], re.DOTALL)[1]


def example_document(service):
    """Return the complete example of a service's settings file, parsed."""
    return tomllib.loads(example_text(service))


def example_with(row, value):
    """Return the complete example with another value of the row's key."""
    document = example_document(row.service)
    table, name = row.find_in(document)
    table[name] = value
    return document


def example_without(row):
    """Return the complete example without the row's key."""
    document = example_document(row.service)
    table, name = row.find_in(document)
    del table[name]
    return document


def keys_of(value, path=""):
    """Return the keys of a document in the notation of the page, such as ``table.key``."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return keys_of(value[0], f"{path}[]")
    if not isinstance(value, dict):
        return {path}
    prefix = f"{path}." if path else ""
    keys = set()
    for key, nested_value in value.items():
        keys |= keys_of(nested_value, f"{prefix}{key}")
    return keys


def row_id(row):
    return f"{row.service}:{row.key}"


@pytest.mark.parametrize("service", sorted(MODELS))
def test_service_loads_the_complete_example(tmp_path, service):
    file = tmp_path / "settings.toml"
    file.write_text(example_text(service))

    load(MODELS[service], file)


@pytest.mark.parametrize("service", sorted(MODELS))
def test_complete_example_sets_every_key(service):
    loaded_settings = MODELS[service].model_validate(example_document(service))

    assert loaded_settings.model_dump() == loaded_settings.model_dump(exclude_unset=True)


@pytest.mark.parametrize("service", sorted(MODELS))
def test_each_key_of_the_complete_example_has_a_row(service):
    document = example_document(service)
    # Replace a table by a text, so that keys_of returns one key for the table.
    one_row = "one row describes the whole table: the provider chooses the keys"
    if service == "supervisor":
        document["labels"] = one_row
    if service == "benchmarks":
        document["network"]["affinities"] = one_row

    assert {row.key for row in rows() if row.service == service} == keys_of(document)


@pytest.mark.parametrize("row", rows(), ids=row_id)
def test_example_of_a_key_is_accepted(row):
    ((name, value),) = tomllib.loads(row.example).items()

    assert name == row.key.rpartition(".")[2]
    assert setting_diagnostics(MODELS[row.service], example_with(row, value)) == []


@pytest.mark.parametrize("row", rows(), ids=row_id)
def test_only_keys_that_the_page_calls_required_are_required(row):
    reported_problems = setting_diagnostics(MODELS[row.service], example_without(row))

    messages = [problem.what for problem in reported_problems]
    if row.default.startswith("required"):
        assert "missing" in messages
    # Without quota_command, the example is not valid, because it contains quota_gib.
    elif row.key.rpartition(".")[2] != "quota_command":
        assert messages == []


def rows_with_default():
    return [row for row in rows() if row.default.startswith("`")]


@pytest.mark.parametrize("row", rows_with_default(), ids=row_id)
def test_omitted_key_has_the_default_of_the_page(row):
    document = example_without(row)
    document.get("storage", {}).pop("quota_gib", None)  # quota_gib requires a quota_command.

    loaded = MODELS[row.service].model_validate(document).model_dump(mode="json")
    table, name = row.find_in(loaded)
    default = tomllib.loads(f"value = {row.default.strip('`')}")["value"]
    assert table[name] == default


@pytest.mark.parametrize("row", rows(), ids=row_id)
def test_example_has_the_type_that_the_page_states(row):
    table, name = row.find_in(example_document(row.service))
    type_on_page = next(words for words in TYPES if row.type.startswith(words))
    python_type, value_of_another_type = TYPES[type_on_page]

    assert isinstance(table[name], python_type)
    assert setting_diagnostics(MODELS[row.service], example_with(row, value_of_another_type)) != []


def limits():
    """Return the test parameters for each limit of a number: the row, the words and the limit."""
    cases = []
    for row in rows():
        if not row.type.startswith(("integer", "float")):
            continue
        for words, limit in re.findall(r"(more than|at least|at most) (\d+)", row.type):
            case_id = f"{row_id(row)}-{words}"
            cases.append(pytest.param(row, words, float(limit), id=case_id))
    return cases


@pytest.mark.parametrize(("row", "words", "limit"), limits())
def test_number_beyond_its_limit_is_refused(row, words, limit):
    number = limit + DISTANCE_TO_FORBIDDEN[words]

    assert setting_diagnostics(MODELS[row.service], example_with(row, number)) != []


def inclusive_limits():
    return [case for case in limits() if case.values[1] != "more than"]


@pytest.mark.parametrize(("row", "words", "limit"), inclusive_limits())
def test_number_at_its_limit_is_accepted(row, words, limit):
    assert setting_diagnostics(MODELS[row.service], example_with(row, limit)) == []
