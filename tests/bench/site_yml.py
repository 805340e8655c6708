#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure site.yml on new hosts, by phase, and a second run without changes.

The benchmark uses a separate lab with the name bench and the hosts of the default lab. The hosts
have the packages installed, or are plain Debian with --plain. A phase is a playbook that site.yml
imports. The exit code is 1 if a measurement misses its limit, or if the second run changes
something.
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
LIMITS_S = {"prepared": 240, "plain": 600, "again": 90}


def plays(file):
    """Yield the names of a playbook's plays, including the plays of imported playbooks."""
    for play in yaml.safe_load(file.read_text()):
        imported_playbook = play.get("ansible.builtin.import_playbook")
        if imported_playbook:
            yield from plays(file.parent / imported_playbook)
        else:
            yield play["name"]


def phases():
    """Return the name of each play's phase, by the name of the play."""
    imports = yaml.safe_load((PLAYBOOKS / "site.yml").read_text())
    phase_by_play = {}
    for playbook_import in imports:
        file = PLAYBOOKS / playbook_import["ansible.builtin.import_playbook"]
        phase_by_play |= dict.fromkeys(plays(file), playbook_import["name"])
    return phase_by_play


def run(environment):
    """Run site.yml; return its seconds, the seconds of each phase and the number of changes.

    Raises SystemExit if a task fails.
    """
    phase_by_play, phase = phases(), None
    seconds_by_phase, changed_tasks = {}, 0
    start_s = phase_start_s = time.monotonic()
    argv = ["ansible-playbook", "site.yml"]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, cwd=CHECKOUT, env=environment, **streams) as ansible:
        for line in ansible.stdout:
            # A line such as "PLAY [Set up the storage] ****" or "PLAY RECAP ****".
            heading = re.match(r"PLAY (?:\[(.*)\]|RECAP) \*", line)
            if heading:
                play_name = heading[1]  # None in the line PLAY RECAP
                now_s = time.monotonic()
                elapsed_s = now_s - phase_start_s
                seconds_by_phase[phase] = seconds_by_phase.get(phase, 0) + elapsed_s
                phase, phase_start_s = phase_by_play.get(play_name, phase), now_s
            for count in re.findall(r" changed=(\d+)", line):
                changed_tasks += int(count)
            print(line, end="", file=sys.stderr)
    if ansible.returncode:
        raise SystemExit(f"site.yml ended with {ansible.returncode}")
    seconds_by_phase.pop(None, None)  # the time before the first play
    return time.monotonic() - start_s, seconds_by_phase, changed_tasks


def main():
    """Run the benchmark, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plain", action="store_true", help="start with plain Debian")
    hosts = "plain" if parser.parse_args().plain else "prepared"
    topology = json.loads((LAB / "topology.json").read_text())
    if hosts == "plain":
        topology["image"] = "plain"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(topology, file)
        file.flush()
        variables = {"GRIDSTEAD_LAB_NAME": "bench", "GRIDSTEAD_LAB_TOPOLOGY": file.name}
        lab = [sys.executable, str(LAB / "lab.py")]
        try:
            subprocess.run([*lab, "up"], env=os.environ | variables, check=True, stdout=sys.stderr)
            first_s, seconds_by_phase, _ = run(os.environ | variables)
            second_s, _, changed = run(os.environ | variables)
        finally:
            subprocess.run(
                [*lab, "down"], env=os.environ | variables, check=True, stdout=sys.stderr
            )
    for name, seconds in seconds_by_phase.items():
        print(f"{seconds:6.0f} s  {name}")
    print(f"{first_s:6.0f} s  from {hosts} hosts to a verified site (at most {LIMITS_S[hosts]})")
    print(f"{second_s:6.0f} s  second run, changed={changed} (at most {LIMITS_S['again']})")
    has_passed = first_s <= LIMITS_S[hosts] and second_s <= LIMITS_S["again"] and not changed
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
