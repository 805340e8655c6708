# SPDX-License-Identifier: Apache-2.0
"""Templates that roles render for their modules match Ansible's template lookup."""

import json
import subprocess
from pathlib import Path

from tests.roles.catalogue import ROOT

TEMPLATE = """# {{ ansible_managed }}, {{ template_path | basename }}
{% for name, places in sites.items() %}
{{ name }}: {{ places | map(attribute='at') | join(', ') }} {{ told }}
{{ hostvars[inventory_hostname].inventory_hostname }}
{% endfor %}
{% include 'part.j2' %}
"""
VARIABLES = {
    "sites": {"b": [{"at": "{{ one }}"}, {"at": "two"}], "a": []},
    "one": "1",
    "told": "{{ sites.b | length }}",
}


def rendered(folder, name, lookup):
    """Return Ansible's output for a template of a folder, and whether the rendering succeeded."""
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates/whole.j2").write_text(TEMPLATE)
    (folder / "templates/part.j2").write_text("part of {{ one }}\n")
    tasks = [{"ansible.builtin.debug": {"msg": f"{{{{ lookup('{lookup}', '{name}') }}}}"}}]
    play = [{"hosts": "localhost", "gather_facts": False, "vars": VARIABLES, "tasks": tasks}]
    (folder / "play.yml").write_text(json.dumps(play))
    argv = ["ansible-playbook", "-c", "local", "-i", "localhost,", str(folder / "play.yml")]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout.partition("TASK")[2]


def test_rendered_matches_ansibles_template_lookup(tmp_path: Path):
    ours, theirs = (
        rendered(tmp_path, "whole.j2", name)
        for name in ("gridstead.site.rendered", "ansible.builtin.template")
    )

    assert ours == theirs
    assert "whole.j2" in ours[1]
    assert "b: 1, two 2" in ours[1]
    assert "part of 1" in ours[1]


def test_a_missing_template_is_named(tmp_path: Path):
    code, said = rendered(tmp_path, "none.j2", "gridstead.site.rendered")

    assert code
    assert "none.j2 could not be found" in said
