# SPDX-License-Identifier: Apache-2.0
"""Functions and statements of templates. Each result is the one of Go and sprig."""

from __future__ import annotations

import pytest
from tests.unit.workflow.strategies import problems_of

from gridstead.workflow.gotemplate import expand

VALUES = {"Job": {"name": "a\nb", "tasks": 4, "env": [{"key": "K", "value": "v"}], "if": None}}


def check(template, expected):
    assert expand(template, VALUES) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ . }}", "map[Job:map[env:[map[key:K value:v]] if:<nil> name:a\\nb tasks:4]]"),
        ("{{ list 1 `a` nil true 1.5 }}", "[1 a <nil> true 1.5]"),
        ('{{ dict "b" 2 "a" (list) }}', "map[a:[] b:2]"),
        ("{{ list }}{{ dict }}", "[]map[]"),
        ("{{ .Job.If }}", "<no value>"),
        ("{{ print 1 2 `a` 3 nil }}", "1 2a3 <nil>"),
        ("{{ println 1 `a` }}", "1 a\n"),
    ],
)
def test_a_value_is_printed_as_in_go(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{{ printf "%03d|%3d|%-3d|%+d" 7 7 7 7 }}', "007|  7|7  |+7"),
        ('{{ printf "%x %X %#x %o %b %c %08b" 255 255 255 8 5 65 5 }}',
         "ff FF 0xff 10 101 A 00000101"),
        ('{{ printf "%05d|%.3d|%5.3d" -7 7 7 }}', "-0007|007|  007"),
        ('{{ printf "%.2f|%8.3f|%-8.1f|%08.2f|%f" 3.14159 2.5 2.5 -2.5 1.0 }}',
         "3.14|   2.500|2.5     |-0002.50|1.000000"),
        ('{{ printf "%e %g %G %v" 1234.5 1e21 1e-7 1e6 }}', "1.234500e+03 1e+21 1E-07 1e+06"),
        ('{{ printf "%5s|%-5s|%.2s|%q|%x" "abc" "abc" "abc" "a\\"b" "ab" }}',
         '  abc|abc  |ab|"a\\"b"|6162'),
        ('{{ printf "%v %v %v %t" nil true (list 1 "a") false }}', "<nil> true [1 a] false"),
        ('{{ printf "%02d %q" (list 1 2) (list "a" "b") }}', '[01 02] ["a" "b"]'),
        ('{{ printf "%[2]s %[1]s" "a" "b" }}', "b a"),
        ('{{ printf "%*d|%-*d|" 4 7 4 7 }}', "   7|7   |"),
        ('{{ printf "%d %s" "a" 1 }}', "%!d(string=a) %!s(int=1)"),
        ('{{ printf "%d" }}|{{ printf "%d" 1 2 }}|{{ printf "5%" }}',
         "%!d(MISSING)|1%!(EXTRA int=2)|5%!(NOVERB)"),
    ],
)  # fmt: skip
def test_printf_formats_as_in_go(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ 1.50 }} {{ .5 }} {{ -2.0 }} {{ 1e3 }} {{ 1e6 }} {{ 123456.7 }}",
         "1.5 0.5 -2 1000 1e+06 123456.7"),
        ("{{ 0.0001 }} {{ 0.00001 }} {{ 1234567.5 }}", "0.0001 1e-05 1.2345675e+06"),
        ("{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 017 }} {{ 1_000 }} {{ 'a' }}", "31 5 15 15 1000 97"),
        ("{{ addf 0.1 0.2 }} {{ subf 1 0.9 }} {{ mulf 1.1 3 }} {{ divf 10 4 }}", "0.3 0.1 3.3 2.5"),
        ("{{ divf 1 3 }}", "0.3333333333333333"),
        ("{{ round 123.5555 3 }} {{ ceil 1.2 }} {{ floor 1.8 }}", "123.556 2 1"),
        ('{{ float64 "2.5" }} {{ int 2.9 }} {{ int "7" }} {{ maxf 1 2.5 }} {{ minf 1 2.5 }}',
         "2.5 2 7 2.5 1"),
        ("{{ lt 1.5 2.5 }} {{ gt 1.5 2.5 }} {{ eq 1.5 1.5 }}", "true false true"),
        ("{{ untilStep 0 10 3 }} {{ seq 3 }} {{ seq 0 2 6 }}", "[0 3 6 9] 1 2 3 0 2 4 6"),
    ],
)  # fmt: skip
def test_floats_and_numbers_work_as_in_go(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ range 5 }}{{ if eq . 2 }}{{ break }}{{ end }}{{ . }}{{ end }}", "01"),
        ("{{ range 4 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ . }}{{ else }}x{{ end }}", "023"),
        (
            "{{range $i := until 3}}{{range 9}}{{with .}}{{break}}{{end}}{{$i}}{{end}};{{end}}",
            "0;1;2;",
        ),
    ],
)
def test_break_and_continue_end_the_innermost_range(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{{ define "a" }}<{{ . }}>{{ end }}{{ template "a" 1 }}{{ template "a" `x` }}', "<1><x>"),
        ('{{ template "a" .Job }}{{ define "a" }}{{ .tasks }}{{ $.tasks }}{{ end }}', "44"),
        ('{{ block "a" 5 }}[{{ . }}]{{ end }}{{ template `a` 6 }}', "[5][6]"),
        ('{{ define "a" }}{{ . }}{{ end }}{{ template "a" }}', "<no value>"),
        (
            '{{define "n"}}{{.}}{{if .}}{{template "n" (sub . 1)}}{{end}}{{end}}{{template "n" 3}}',
            "3210",
        ),
        ('{{ define "a" }}\n{{ end }}{{ define "a" }}b{{ end }}{{ template "a" }}', "b"),
        (
            '{{ range 2 }}{{ block "r" . }}{{ range 3 }}{{ break }}{{ end }}r{{ end }}{{ end }}',
            "rr",
        ),
    ],
)
def test_define_template_and_block_work_as_in_go(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{{ "abc" | sha256sum | trunc 8 }} {{ sha1sum "" | trunc 8 }}', "ba7816bf da39a3ee"),
        ('{{ b64enc "é" }} {{ b64dec "w6k=" }} {{ b32enc "a" }} {{ b32dec "ME======" }}',
         "w6k= é ME====== a"),
        ('{{ adler32sum "Wiki" }} {{ sha512sum "a" | len }}', "64618901 128"),
        ("""{{ fromJson `{"a": [1, "b"]}` }} {{ toPrettyJson (list) }}""", "map[a:[1 b]] []"),
        ('{{ "\\x41\\u00e9\\a" | quote }}', '"Aé\\a"'),
    ],
)  # fmt: skip
def test_hashes_and_encodings_work_as_in_sprig(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ('{{ title "it is" }} {{ snakecase "FirstName" }} {{ kebabcase "a b" }}',
         "It Is first_name a-b"),
        ('{{ substr 1 3 "abcd" }} {{ abbrev 5 "abcdefg" }} {{ nospace " a b " }} {{ cat 1 "a" }}',
         "bc ab... ab 1 a"),
        ('{{ (split "," "a,b")._1 }} {{ (splitn "," 2 "a,b,c")._1 }} {{ splitList "," "a,b" }}',
         "b b,c [a b]"),
        ('{{ trimAll "-" "--a-" }} {{ html "<\'>" }} {{ urlquery "a b&" }}',
         "a &lt;&#39;&gt; a+b%26"),
        ("{{ rest (list 1 2 3) }} {{ append (list 1) 2 }} {{ concat (list 1) (list 2) }}",
         "[2 3] [1 2] [1 2]"),
        ('{{ uniq (list 1 1 2) }} {{ without (list 1 2) 1 }} {{ sortAlpha (list "b" "a") }}',
         "[1 2] [2] [a b]"),
        ('{{ $d := dict "a" 1 }}{{ $_ := set $d "b" 2 }}{{ $d }} {{ omit $d "a" }} {{ keys $d }}',
         "map[a:1 b:2] map[b:2] [a b]"),
        ('{{ merge (dict "a" 1) (dict "a" 2 "b" 3) }} {{ dig "a" "b" 5 (dict "a" (dict "b" 6)) }}',
         "map[a:1 b:3] 6"),
        ('{{ base "/a/b.txt" }} {{ dir "/a/b" }} {{ ext "a.tar.gz" }} {{ kindOf "a" }}',
         "b.txt /a .gz string"),
        ('{{ quote nil "a" }}{{ squote nil }} {{ slice "abc" 1 }} {{ index (list 1 2) 1 }}',
         '"a" bc 2'),
    ],
)  # fmt: skip
def test_common_functions_of_sprig_are_available(template, expected):
    check(template, expected)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            '{{ $a := dict "k" (dict "new" 1) }}{{ $t := dict "k" $a }}{{ merge $t $a }}',
            "map[k:map[k:map[new:1] new:1]]",
        ),
        (
            '{{ $a := dict "k" (dict "new" 1) }}{{ $t := dict "k" $a }}{{ mergeOverwrite $t $a }}',
            "map[k:map[k:map[new:1] new:1]]",
        ),
        (
            '{{ $a := dict "b" (dict "z" 1) }}{{ merge $a (dict "b" $a) (dict "c" $a.b) }}',
            "map[b:map[b:map[z:1] z:1] c:map[b:map[z:1] z:1]]",
        ),
    ],
)
def test_a_mapping_can_be_merged_with_a_mapping_that_contains_it(template, expected):
    check(template, expected)


@pytest.mark.parametrize("function", ["merge", "mergeOverwrite"])
def test_merging_a_mapping_with_itself_many_times_is_limited(function):
    sources = ' (dict "b" $a "c" (dict "b" $a))' * 500
    template = f'{{{{ $a := dict "b" (dict "z" 1) }}}}{{{{ {function} $a{sources} | len }}}}'

    (problem,) = problems_of(expand, template, VALUES)

    assert "exceeds the limit of work" in str(problem)
