# SPDX-License-Identifier: Apache-2.0
r"""Functions of templates for regular expressions. Each result is the one of Go and sprig."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.workflow.strategies import problems_of, texts

from gridstead.workflow.gotemplate import expand

FUNCTIONS = {
    "regexFind": 2,
    "regexFindAll": 3,
    "regexMatch": 2,
    "regexReplaceAll": 3,
    "regexReplaceAllLiteral": 3,
    "regexSplit": 3,
}


def call(name, *arguments):
    """Return the result of a function, whose arguments are texts and numbers."""
    values = {f"v{number}": value for number, value in enumerate(arguments)}
    names = " ".join(f".{name}" for name in values)
    return json.loads(expand(f"{{{{ {name} {names} | toJson }}}}", values))


def problem(name, *arguments):
    (error,) = problems_of(call, name, *arguments)
    return error.reason


@pytest.mark.parametrize(
    ("regex", "text", "expected"),
    [
        ("^a.c$", "abc", True),
        ("^b", "abc", False),
        ("b", "abc", True),
        ("", "", True),
        (r"[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,4}", "test@acme.com", True),
        (r"^\pL+$", "äé日", True),
        (r"^\d$", "٣", False),
        (r"\bä", "ä", False),  # so is \b
        ("(?i)k", "\u212a", True),  # the sign for kelvin
        ("a$", "a\n", False),
        ("(?m)a$", "a\n", True),
        ("a.b", "a\nb", False),
        ("(?s)a.b", "a\nb", True),
        (r"\QA.B\E", "A.B", True),
        (r"^[[:alpha:]]+\z", "ab", True),
    ],
)
def test_regex_match_has_the_syntax_of_go(regex, text, expected):
    assert call("regexMatch", regex, text) is expected
    assert call("mustRegexMatch", regex, text) is expected


@pytest.mark.parametrize(
    ("regex", "text", "limit", "expected"),
    [
        ("a.", "paranormal", -1, ["ar", "an", "al"]),
        ("a.", "paranormal", 2, ["ar", "an"]),
        ("a.", "paranormal", 0, []),
        ("a.", "none", -1, []),
        ("[2,4,6,8]", "123456789", -1, ["2", "4", "6", "8"]),
        # An empty match directly after another match does not count.
        ("x*", "axxb", -1, ["", "xx", ""]),
        ("", "é", -1, ["", ""]),
        ("a|ab", "ab", -1, ["a"]),
        ("^a", "aaa", -1, ["a"]),
        (r"\ba", "aa a", -1, ["a", "a"]),
    ],
)
def test_regex_find_all_finds_the_matches_of_go(regex, text, limit, expected):
    assert call("regexFindAll", regex, text, limit) == expected
    assert call("mustRegexFindAll", regex, text, limit) == expected
    first = call("regexFind", regex, text)
    assert first == call("mustRegexFind", regex, text)
    if limit:
        assert first == (expected[0] if expected else "")


@pytest.mark.parametrize(
    ("regex", "text", "limit", "expected"),
    [
        ("a", "banana", -1, ["b", "n", "n", ""]),
        ("a", "banana", 0, []),
        ("a", "banana", 1, ["banana"]),
        ("a", "banana", 2, ["b", "nana"]),
        ("z+", "pizza", -1, ["pi", "a"]),
        ("a*", "abaabaccadaaae", 5, ["", "b", "b", "c", "cadaaae"]),
        ("", "añb", -1, ["a", "ñ", "b"]),
        ("a", "", -1, [""]),
        ("", "", -1, []),
    ],
)
def test_regex_split_splits_as_go(regex, text, limit, expected):
    assert call("regexSplit", regex, text, limit) == expected
    assert call("mustRegexSplit", regex, text, limit) == expected


@pytest.mark.parametrize(
    ("regex", "text", "replacement", "expected"),
    [
        ("a(x*)b", "-ab-axxb-", "T", "-T-T-"),
        ("a(x*)b", "-ab-axxb-", "$1", "--xx-"),
        # A name is as long as possible: there is no group 1W.
        ("a(x*)b", "-ab-axxb-", "$1W", "---"),
        ("a(x*)b", "-ab-axxb-", "${1}W", "-W-xxW-"),
        ("a(?P<n>x*)b", "-ab-axxb-", "[$n|${n}|$m]", "-[||]-[xx|xx|]-"),
        ("(?<n>é)", "aéb", "$n$n", "aééb"),
        ("(a)(b)?", "a", "$2$1$0", "aa"),
        ("a", "a", "$$1", "$1"),
        ("a", "a", "$", "$"),
        ("a", "a", "$ ${ ${} ${1 $-", "$ ${ ${} ${1 $-"),
        ("(a)", "a", "$01 $1é $1² $99999999999", "  a² "),
        ("a", "a", r"\1\0\\", r"\1\0\\"),  # not the syntax of RE2's own replacements
        ("[a-c]*", "abcbcdcdedef", "x", "xdxdxexdxexfx"),
        ("a*", "banana", "x", "xbxnxnx"),
        ("", "aé", "-", "-a-é-"),
        ("^a", "aaa", "b", "baa"),
        ("(?m)^", "a\nb", "> ", "> a\n> b"),
    ],
)
def test_regex_replace_all_expands_groups_as_go(regex, text, replacement, expected):
    assert call("regexReplaceAll", regex, text, replacement) == expected
    assert call("mustRegexReplaceAll", regex, text, replacement) == expected


@pytest.mark.parametrize("name", ["regexReplaceAllLiteral", "mustRegexReplaceAllLiteral"])
def test_regex_replace_all_literal_expands_nothing(name):
    assert call(name, "a(x*)b", "-ab-axxb-", r"${1}$1$$\1") == r"-${1}$1$$\1-${1}$1$$\1-"


def test_regex_quote_meta_escapes_the_characters_of_go():
    assert call("regexQuoteMeta", r".+*?()|[]{}^$\ -_#é") == (r"\.\+\*\?\(\)\|\[\]\{\}\^\$\\ -_#é")


@given(texts)
def test_a_quoted_text_matches_only_itself(text):
    regex = call("regexQuoteMeta", text)

    assert call("regexMatch", f"^{regex}$", text)
    assert call("regexReplaceAllLiteral", regex, f"{text}", "") == ""
    assert not call("regexMatch", f"^{regex}$", f"{text}x")


@given(st.text("ab\né", max_size=20), st.sampled_from(["a", "ab|b", "[^a]", "a+b?", "(?s)a.b?"]))
def test_expressions_without_empty_matches_give_the_results_of_python(text, regex):
    assert call("regexFindAll", regex, text, -1) == re.findall(regex, text)
    assert call("regexSplit", regex, text, -1) == re.split(regex, text)
    assert call("regexReplaceAll", regex, text, "[$0]") == re.sub(regex, r"[\g<0>]", text)


@pytest.mark.parametrize("regex", ["(", "[", "a**", "a++", r"\1", "(?=a)", r"\C", "a{1001}"])
@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *(f"mustR{name[1:]}" for name in FUNCTIONS)}))
def test_a_wrong_expression_is_an_error(name, regex):
    key = name.replace("mustR", "r")
    arguments = [regex, "a", -1 if key in ("regexFindAll", "regexSplit") else "b"]

    if name == "regexMatch":
        # Sprig ignores the error in this function.
        assert call(name, *arguments[: FUNCTIONS[key]]) is False
    else:
        reason = problem(name, *arguments[: FUNCTIONS[key]])
        assert reason.startswith(f"cannot call {name}: ")
        assert "b'" not in reason


def test_any_byte_is_allowed_where_it_is_a_text():
    assert call("regexFind", r"\Q\C\E", r"a\Cb") == r"\C"
    assert call("regexFind", r"\\C", r"a\Cb") == r"\C"


@pytest.mark.parametrize("value", [5, None, True, ["a"]])
def test_a_value_that_is_not_a_text_is_an_error(value):
    assert problem("regexFind", value, "a") == "cannot call regexFind: needs a text"
    assert problem("regexFind", "a", value) == "cannot call regexFind: needs a text"
    for name in ("regexReplaceAll", "regexReplaceAllLiteral"):
        assert problem(name, "a", "a", value) == f"cannot call {name}: needs a text"


@pytest.mark.parametrize("limit", ["1", None, True, 1.5])
def test_a_limit_that_is_not_a_whole_number_is_an_error(limit):
    for name in ("regexFindAll", "regexSplit"):
        assert problem(name, "a", "a", limit) == f"cannot call {name}: needs a whole number"


@pytest.mark.parametrize("name", ["regexMatch", "regexFind"])
def test_an_expression_that_needs_too_much_memory_is_an_error(name):
    assert "pattern too large" in problem(name, r"\pL{300}", "a")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        # Each of the matches reads the whole rest of the text.
        ("regexReplaceAll", ["a(.*b)?", "a" * 200_000, "b"]),
        ("regexFindAll", ["a(.*b)?", "a" * 200_000, -1]),
        ("regexSplit", ["", "a" * 200_000, -1]),
        # The program of the expression is large.
        ("regexFind", ["(a|b)*a((a|b){25}){40}", "ab" * 100_000]),
        ("regexFind", [r"\pL" * 20_000 + "(", "a"]),
        ("regexReplaceAll", ["()" * 1000, "a" * 1000, "$1"]),
        ("regexReplaceAll", ["a", "a" * 1000, "$0" * 1000]),
    ],
)
def test_the_work_of_regular_expressions_is_limited(name, arguments):
    assert problem(name, *arguments) == "exceeds the limit of work"


def test_the_work_to_parse_many_expressions_is_limited():
    problems = problems_of(
        expand, r"{{ range until 9999 }}{{ regexMatch `[\pL\pN\pC]{9}(` `a` }}{{ end }}", {}
    )

    assert "exceeds the limit of work" in str(problems)


def test_the_size_of_a_replaced_text_is_limited():
    assert problem("regexReplaceAllLiteral", "a", "a" * 100, "b" * 10_000).endswith(
        "would be larger than 256 KiB"
    )
    assert problem("regexReplaceAll", "a+", "a" * 1000, "$0" * 300).endswith(
        "would be larger than 256 KiB"
    )


def test_a_module_template_without_regular_expressions_does_not_import_re2():
    program = (
        "import sys; from gridstead.workflow.gotemplate import expand;"
        "expand('{{ upper `a` }}', {}); assert 're2' not in sys.modules;"
        "expand('{{ regexFind `a` `a` }}', {}); assert 're2' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
