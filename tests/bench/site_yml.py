#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long site.yml takes on new hosts, by phase, and again where nothing is to be done.

A lab of its own, named bench: the default one's hosts, with their packages in the image, or with
--plain a bare Debian. A phase is a playbook that site.yml imports. It ends with 1 if a bar is
missed, or if the second run changes something.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
LAB = CHECKOUT / "molecule" / "lab"
PLAYBOOKS = CHECKOUT / "playbooks"
BARS_S = {"prepared": 240, "plain": 600, "again": 90}


def plays(file):
    """Return the names of a playbook's plays, those of playbooks that it imports among them."""
    for play in yaml.safe_load(file.read_text()):
        imported = play.get("ansible.builtin.import_playbook")
        yield from plays(file.parent / imported) if imported else [play["name"]]


def phases():
    """Return what site.yml does, by the name of a play."""
    parts = yaml.safe_load((PLAYBOOKS / "site.yml").read_text())
    found = ((part["name"], PLAYBOOKS / part["ansible.builtin.import_playbook"]) for part in parts)
    return {play: name for name, file in found for play in plays(file)}


def run(environment):
    """Run site.yml and return its seconds, those of each phase, and how many tasks changed
    something.
    """
    phase_of, spent, phase, changed = phases(), {}, None, 0
    began = since = time.monotonic()
    argv = ["ansible-playbook", "site.yml"]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=CHECKOUT, env=environment, **streams) as ansible:
        for line in ansible.stdout:
            if play := re.match(r"PLAY (?:\[(.*)\]|RECAP) \*", line):
                now = time.monotonic()
                spent[phase] = spent.get(phase, 0) + now - since
                phase, since = phase_of.get(play[1], phase), now
            changed += sum(map(int, re.findall(r" changed=(\d+)", line)))
            print(line, end="", file=sys.stderr)
    if ansible.returncode:
        raise SystemExit(f"site.yml ended with {ansible.returncode}")
    return (
        time.monotonic() - began,
        {name: seconds for name, seconds in spent.items() if name},
        changed,
    )


def main():
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plain", action="store_true", help="begin with a bare Debian")
    kind = "plain" if parser.parse_args().plain else "prepared"
    topology = json.loads((LAB / "topology.json").read_text()) | (
        {"image": "plain"} if kind == "plain" else {}
    )
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(topology, file)
        file.flush()
        named = {"GRIDSTEAD_LAB_NAME": "bench", "GRIDSTEAD_LAB_TOPOLOGY": file.name}
        lab = [sys.executable, str(LAB / "lab.py")]
        try:
            subprocess.run([*lab, "up"], env=os.environ | named, check=True, stdout=sys.stderr)
            first, spent, _ = run(os.environ | named)
            again, _, changed = run(os.environ | named)
        finally:
            subprocess.run([*lab, "down"], env=os.environ | named, check=True, stdout=sys.stderr)
    for name, seconds in spent.items():
        print(f"{seconds:6.0f} s  {name}")
    print(f"{first:6.0f} s  from {kind} hosts to a site that is verified (bar {BARS_S[kind]})")
    print(f"{again:6.0f} s  again, changed={changed} (bar {BARS_S['again']})")
    return 0 if first <= BARS_S[kind] and again <= BARS_S["again"] and not changed else 1


if __name__ == "__main__":
    sys.exit(main())
