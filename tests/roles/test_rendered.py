# SPDX-License-Identifier: Apache-2.0
"""Lookup gridstead.site.rendered returns the same text as Ansible's lookup template."""

import json
import subprocess
from pathlib import Path

from tests.roles.catalogue import ROOT

TEMPLATE = """# {{ ansible_managed }}, {{ template_path | basename }}
{% for name, racks in sites.items() %}
{{ name }}: {{ racks | map(attribute='label') | join(', ') }} {{ rack_count }}
{{ hostvars[inventory_hostname].inventory_hostname }}
{% endfor %}
{% include 'part.j2' %}
"""
VARIABLES = {
    "sites": {"b": [{"label": "{{ first_label }}"}, {"label": "two"}], "a": []},
    "first_label": "1",
    "rack_count": "{{ sites.b | length }}",
}


def render_with(lookup, folder, name):
    """Render a template of a folder with a lookup. Return Ansible's exit code and output."""
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates/whole.j2").write_text(TEMPLATE)
    (folder / "templates/part.j2").write_text("part of {{ first_label }}\n")
    tasks = [{"ansible.builtin.debug": {"msg": f"{{{{ lookup('{lookup}', '{name}') }}}}"}}]
    play = [{"hosts": "localhost", "gather_facts": False, "vars": VARIABLES, "tasks": tasks}]
    (folder / "play.yml").write_text(json.dumps(play))
    argv = ["ansible-playbook", "-c", "local", "-i", "localhost,", str(folder / "play.yml")]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout.partition("TASK")[2]


def test_rendered_matches_ansibles_template_lookup(tmp_path: Path):
    code, output = render_with("gridstead.site.rendered", tmp_path, "whole.j2")

    assert (code, output) == render_with("ansible.builtin.template", tmp_path, "whole.j2")
    assert "whole.j2" in output
    assert "b: 1, two 2" in output
    assert "part of 1" in output


def test_the_error_names_the_missing_template(tmp_path: Path):
    code, output = render_with("gridstead.site.rendered", tmp_path, "none.j2")

    assert code != 0
    assert "none.j2 could not be found" in output
