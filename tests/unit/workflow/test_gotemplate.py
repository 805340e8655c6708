# SPDX-License-Identifier: Apache-2.0
"""Templates of modules: their output and their limits."""

from __future__ import annotations

import contextlib
import sys
import time
import tracemalloc
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.workflow.strategies import problems_of, texts

from gridstead.workflow.gotemplate import expand
from gridstead.workflow.gotemplate.printing import MAX_CHARS

VALUES = {
    "Job": {"resources": {"tasks": 4, "memPerCpu": 100}, "env": []},
    "Step": {
        "name": "it's",
        "if": None,
        "use": {"steps": [{"name": "one", "run": None}, {"name": "two"}], "args": []},
    },
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain } { text", "plain } { text"),
        ("a{{ }}b", "ab"),
        ("{{ .Job.Resources.Tasks }}", "4"),
        ("{{.Job.Resources.MemPerCPU}}", "100"),
        ("a {{- /* nothing */ -}} b", "ab"),
        ("a\n{{- 5 }}\n {{- 6 -}} \n b", "a56b"),
        ('{{ `a}}b` }}{{ "c\\"}}" }}', 'a}}bc"}}'),
        (
            ("{{ if eq .Job.Resources.Tasks 3 }}a{{ else if gt .Job.Resources.Tasks 3 }}b"
            "{{ else }}c{{ end }}d"),
            "bd",
        ),
        ("{{ if false }}a{{ else if false }}b{{ else if true }}c{{ else }}d{{ end }}", "c"),
        ("{{ range .Step.Use.Steps }}{{ .Name }},{{ end }}", "one,two,"),
        (
            "{{ range $i, $s := .Step.Use.Steps }}{{ $i }}{{ $s.Name }}{{ $.Step.Name }};{{ end }}",
            "0oneit's;1twoit's;",
        ),
        ("{{ range .Step.Use.Args }}x{{ else }}none{{ end }}", "none"),
        ('{{ range $k, $v := dict "b" 1 "a" 2 }}{{ $k }}{{ $v }}{{ end }}', "a2b1"),
        (
            ("{{ with .Step.Name }}{{ . | upper }}{{ end }}"
            "{{ with .Step.If }}x{{ else }}y{{ end }}"),
            "IT'Sy",
        ),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        ('{{ .Step.If | default "d" }}{{ default "d" 5 }}', "d5"),
        ('{{ mul .Job.Resources.Tasks (add 1 2) | printf "%d of %v%%" }}', "12 of %!v(MISSING)%"),
        ('{{ printf "%s-%q" "a" "b" }}', 'a-"b"'),
        ('{{ and 1 0 (fail "a") }}{{ or 0 "x" (fail "b") }}', "0x"),
        ('{{ not (eq 1 true) }}{{ eq 3 1 2 3 }}{{ le "a" "b" }}', "truetruetrue"),
        ("{{ div -7 2 }} {{ mod -7 2 }} {{ max 1 3 2 }}", "-3 -1 3"),
        (
            '{{ list 1 2 | toJson }}{{ join "-" (list 1 2) }}{{ (index .Step.Use.Steps 1).Name }}',
            "[1, 2]1-2two",
        ),
        ('{{ true }}{{ nil }}{{ len "abc" }}{{ .Step.Name | squote }}', "true<no value>3'it's'"),
        ('{{ "a\\nb" | indent 2 }}', "  a\n  b"),
    ],
)  # fmt: skip
def test_a_template_is_expanded(template, expected):
    assert expand(template, VALUES) == expected


def test_a_module_inserts_the_steps_of_the_workflow_that_uses_it():
    template = """\
steps:
  - name: my step
  {{- .Step.Use.Steps | toYaml | nindent 2 }}
  - name: my other step
"""
    with_steps = expand(template, VALUES)
    without_steps = expand(template, {"Step": {"Use": {"Steps": []}}})

    assert step_names(with_steps) == ["my step", "one", "two", "my other step"]
    assert step_names(without_steps) == ["my step", "my other step"]


def step_names(module_text):
    return [step["name"] for step in yaml.safe_load(module_text)["steps"]]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("x\n{{ .Job", "line 2: template: has an action that does not end"),
        ("{{ ; }}", "where it is not allowed"),
        ("{{ /* x }}", "has a comment that does not end"),
        ("{{ end }}", "has an end without an if, range or with"),
        ("{{ else }}", "has an else without an if, range or with"),
        ("{{ if 1 }}{{ else }}{{ else }}{{ end }}", "has an else without an if, range or with"),
        ("{{ range 1 }}{{ else if 1 }}{{ end }}", "after else"),
        ("{{ if 1 }}", "has no end for if"),
        ("{{ (1 }}", "has a parenthesis that does not end"),
        ("{{ | 1 }}", "has an empty command"),
        ("{{ 1 2 }}", "passes arguments to a value that is not a function"),
        ("{{ $x }}", "has no variable $x"),
        ("{{ $x = 1 }}", "has no variable $x"),
        ("{{ if $x := 1 }}{{ end }}{{ $x }}", "has no variable $x"),
        ("{{ $x := 1 }}{{ $x `=` 2 }}", "passes arguments to a value that is not a function"),
        ("{{ .Job.None }}", "refers to None, which does not exist"),
        ("{{ .Step.If.X }}", "refers to X of a value that is nil"),
        ('{{ fail "is too old" }}', "cannot call fail: is too old"),
        ("{{ break }}", "has a break outside a range"),
        ("{{ range 1 }}{{ else }}{{ continue }}{{ end }}", "has a continue outside a range"),
        ('{{ range 1 }}{{ block "a" . }}{{ break }}{{ end }}{{ end }}', "a break outside a range"),
        ('{{ template "a" }}', "has no definition of a"),
        ("{{ template a }}", "has a template without a name in quotes"),
        ('{{ if 1 }}{{ define "a" }}{{ end }}{{ end }}', "has a define inside if"),
        ('{{ define "a" }}', "has no end for define"),
        ('{{ define "a" }}{{ else }}{{ end }}', "has an else without an if, range or with"),
        ('{{ define "a" }}1{{ end }}{{ define "a" }}2{{ end }}', "defines a twice"),
        ('{{ define "a" }}{{ $x }}{{ end }}{{ $x := 1 }}{{ template "a" }}', "has no variable $x"),
        ('{{ "\\q" }}', "which is not a valid text"),
        ("{{ 'ab' }}", "in an action, where it is not allowed"),
        ("{{ 1e999 }}", "too large a number"),
        ("{{ add 1 .Step }}", "cannot call add"),
        ("{{ index 5 1 }}", "cannot call index"),
        ("{{ div 1 0 }}", "divides by zero"),
        ("{{ round 1.7976931348623157e308 -300 0.1 }}", "is too large a number"),
        ('{{ range "x" }}{{ end }}', "ranges over a value that is not a list"),
        ('{{ printf "%99999999d" 1 }}', "a width or precision of more than 4096"),
        ('{{ printf "%T" 1 }}', "which depends on types of Go"),
    ],
)  # fmt: skip
def test_an_invalid_template_is_refused_with_a_reason(template, reason):
    (problem,) = problems_of(expand, template, VALUES)

    assert reason in str(problem)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "a template can read only the job and the step")
          for name in ("env", "expandenv", "getHostByName", "include", "tpl", "lookup")),
        *((name, "the same workflow must always give the same script")
          for name in ("now", "date", "uuidv4", "randAlpha", "randInt", "genPrivateKey")),
        *((name, "not available")
          for name in ("call", "readFile", "derivePassword", "osBase", "__class__")),
    ],
)  # fmt: skip
def test_functions_with_side_effects_are_not_available_and_the_error_says_why(name, reason):
    (problem,) = problems_of(expand, f'{{{{ {name} "HOME" }}}}', VALUES)

    assert f"uses the function {name}, which is not available" in str(problem)
    assert reason in str(problem)


@pytest.mark.parametrize("name", ["__class__", "__init__", "keys", "items", "mro", "append"])
@pytest.mark.parametrize("value", [".Job", ".Step.Name", "$.Step.Use.Steps", "1", "(list 1)"])
def test_attributes_of_python_objects_are_not_available(value, name):
    template = f"{{{{ with {value} }}}}{{{{ .{name} }}}}{{{{ end }}}}{{{{ {value}.{name} }}}}"

    assert problems_of(expand, template, VALUES)


def test_a_missing_key_of_a_mapping_that_the_template_made_is_nil():
    assert expand("{{ (dict).__class__ }}{{ if (dict).keys }}a{{ end }}", VALUES) == "<no value>"


@pytest.mark.parametrize(
    "template",
    [
        "{{ $x := list 1 }}" + "{{ $x = list $x $x }}" * 60 + "{{ toYaml $x }}",
        "{{ $x := list 1 }}{{ range until 5000 }}{{ $x = list $x }}{{ end }}",
        "{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}",
        '{{ $x := repeat 200000 "x" }}' + "{{ $y := print $x }}" * 100,
        '{{ $x := repeat 200000 "x" }}{{ $x }}{{ $x }}',
        '{{ repeat 99999999999 "x" }}', '{{ indent 99999999999 "x" }}', "{{ until 99999999999 }}",
        '{{ $x := repeat 2000 "x" }}{{ replace "x" $x $x }}', "{{ range 999999999999 }}{{ end }}",
        '{{ $x := repeat 200000 "x" }}{{ join $x (until 1000) }}',
        "{{ " + "(" * 1000 + "1" + ")" * 1000 + " }}", "{{ .a" + ".a" * 100_000 + " }}",
        "{{ if 1 }}" * 100_000,
        "{{" * 130_000, "{{ `" * 60_000, "{{ /*" * 50_000, "{{ 1 | " * 30_000,
        "{{ $x := 1 }}" * 20_000 + "{{ mul 9 (mul" * 900,
        "{{ $x := 9 }}" + "{{ $x = mul $x $x }}" * 9,
        '{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}',
        '{{ template "a" }}{{ define "a" }}{{ if 1 }}' + '{{ template "a" }}' * 2
        + "{{ end }}{{ end }}",
        '{{define "b"}}{{range 999}}{{continue}}{{end}}{{end}}{{range 999}}{{template "b"}}{{end}}',
        "{{ range 99999 }}{{ end }}{{ range 99999 }}" + "{{/**/}}" * 30_000 + "{{ end }}",
        '{{ printf "%4096d%4096d" 1 2 | repeat 99 }}',
        '{{ $x := "%4096d" | repeat 100 }}{{ printf $x }}{{ printf "%4096d" (until 90000) }}',
        "{{ $x := dict }}{{ $x = set $x `a` $x }}{{ $x }}",
        "{{ $x := list 1 }}" + "{{ $x = list $x $x }}" * 15 + "{{ range 9 }}{{ $x }}{{ end }}",
    ],
    ids=range(28),
)  # fmt: skip
def test_a_template_that_exceeds_a_limit_is_refused(template):
    assert problems_of(expand, template, VALUES)


@contextlib.contextmanager
def traced_memory():
    """Yield an object whose ``peak`` is the most memory of the block, in bytes, after the block."""
    memory = SimpleNamespace(peak=0)
    tracemalloc.start()
    try:
        yield memory
        memory.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_keys_of_a_mapping_count_towards_the_limit_of_work():
    """A printed list contains the long key once for each of its items."""
    template = '{{ $d := dict (repeat 200000 "x") 1 }}{{ list' + " $d" * 100 + " | toYaml | len }}"
    with traced_memory() as memory:
        problems = problems_of(expand, template, VALUES)

    assert "exceeds the limit of work" in str(problems)
    assert memory.peak < 20 * MAX_CHARS


@pytest.mark.parametrize("function", ["print", "quote", "squote", "printf"])
@pytest.mark.parametrize(
    ("argument_count", "reason"), [(4, "would be larger"), (400, "exceeds the limit of work")]
)
def test_a_text_that_would_be_too_large_is_not_created(function, argument_count, reason):
    arguments = "$x " * argument_count
    if function == "printf":
        placeholders = "%s" * argument_count
        arguments = f'"{placeholders}" {arguments}'
    template = f'{{{{ $x := repeat 262144 "x" }}}}{{{{ {function} {arguments}}}}}'
    with traced_memory() as memory:
        problems = problems_of(expand, template, VALUES)

    assert reason in str(problems)
    assert memory.peak < 20 * MAX_CHARS


@pytest.mark.parametrize(
    "call",
    ["toYaml $", "toJson $", "eq $ $", "len (toYaml $)", "quote $.Text", "contains $.Text $.Text"],
)
def test_reading_a_large_value_counts_towards_the_limit_of_work(call):
    """Each call reads a large value and returns a small one."""
    values = {"List": [{"name": "", "value": None}] * 1000, "Text": "x" * 100_000}
    template = f"{{{{ range 30000 }}}}{{{{ $x := {call} }}}}{{{{ end }}}}"
    started_s = time.process_time()

    problems = problems_of(expand, template, values)

    assert "exceeds the limit of work" in str(problems)
    assert time.process_time() - started_s < 20  # without the limit, minutes


@pytest.fixture
def usual_recursion_limit():
    """Other tests may have raised Python's limit, which would hide a recursion that is too deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("usual_recursion_limit")
def test_fields_in_nested_parentheses_are_read():
    template = "{{ " + "(" * 31 + "dict" + (".a" * 31 + ")") * 31 + " }}"
    (problem,) = problems_of(expand, template, VALUES)

    assert "refers to a of a value that is nil" in str(problem)


@pytest.mark.usefixtures("usual_recursion_limit")
def test_the_deepest_template_is_expanded_or_refused():
    """Levels of templates, parentheses and conditions all use the recursion of Python."""
    condition = "(and 1 " * 31 + "1" + ")" * 31
    template = (
        '{{ define "a" }}' + "{{ range 1 }}" * 30 + f"{{{{ if {condition} }}}}1{{{{ end }}}}"
        '{{ template "a" }}' + "{{ end }}" * 31
    )

    (problem,) = problems_of(expand, f'{template}{{{{ template "a" }}}}', VALUES)

    assert "levels deep" in str(problem)


def test_a_range_that_ends_early_creates_no_list():
    template = "{{ range 999 }}{{ range 99999 }}{{ break }}{{ end }}{{ end }}"
    with traced_memory() as memory:
        assert expand(template, VALUES) == ""

    # A list of 99,999 numbers needs more than 3 MB.
    assert memory.peak < 1_000_000


def test_omit_accepts_many_keys():
    template = (
        '{{ $d := split "," (repeat 7000 ",") }}{{ omit $d' + " `_xxxx`" * 20_000 + " | len }}"
    )

    assert expand(template, VALUES) == "7001"


@pytest.mark.parametrize(
    "template",
    [
        "{{ $l := list" + " list" * 2000 + ' }}{{ printf (repeat 1000 "%[1]v") $l | len }}',
        "{{ without (until 20000)" + " -1" * 20_000 + " | len }}",
        "{{ range until 100 }}{{ if and" + " 1" * 30_000 + " }}{{ end }}{{ end }}",
        "{{ $d := split `,` (repeat 9999 `,`) }}{{range 99}}{{range $d}}{{break}}{{end}}{{end}}",
    ],
    ids=["printf", "without", "and", "range of a mapping"],
)  # fmt: skip
def test_the_work_of_a_template_is_limited(template):
    problems = problems_of(expand, template, VALUES)

    assert "exceeds the limit of work" in str(problems)


template_tokens = st.sampled_from(
    ["{{", "}}", "{{-", "-}}", ".", ".Step", "$", "$x", ":=", "=", "|", "(", ")", ",", "if", "else",
     "end", "range", "with", '"', "`", "\\", "/*", "*/", " ", "\n", "1", "-1", "nil", "toYaml",
     "index", "list", "dict", "until", "get", "hasKey", "first", "join", "printf", "%s", "trunc",
     "splitList", "keys", "len", "replace", "define", "template", "block", "break", "continue",
     "1.5", "0x", "'a'", "%03d", "%*v", "%[1]q", "dict", "set", "merge", "round", "divf",
     "fromJson",
     "b64dec", "seq", "slice", "dig", "omit", "quote", "regexMatch", "regexReplaceAll", "[a-z]+",
     "(a*)*", "uniq", "sortAlpha", "print", "$.Job"]
)  # fmt: skip


@given(st.lists(st.one_of(template_tokens, template_tokens, texts), max_size=30).map("".join))
@settings(max_examples=500)
def test_any_template_is_expanded_or_refused(template):
    problems_of(expand, "{{ $x := 1 }}" + template, VALUES)
