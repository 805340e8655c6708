# SPDX-License-Identifier: Apache-2.0
"""The targets of make on a machine without python3, and an interrupted run of site.yml."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
# Files of the checkout that `make demo` requires.
PREREQUISITES = [
    "contracts/package-lock.json", "cvmfs/pyproject.toml", "pyproject.toml",
    "requirements/dev.txt", "requirements/slither.txt", "requirements/traefik.txt",
    "tools/install-packages",
]  # fmt: skip
# Like Ansible while it starts, this program prints a traceback after SIGINT.
FAKE_ANSIBLE = """\
#!/bin/bash
trap 'echo "Traceback (most recent call last):"; exit 1' INT
trap 'echo ended; exit 143' TERM
echo "running $*"
for ((i = 0; i < 200; i++)); do sleep 0.05; done
"""


@pytest.fixture
def machine_without_python(tmp_path):
    """Return the environment of a machine without python3, in whose folder make can run."""
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    (tmp_path / "bin").mkdir()
    for program in ("bash", "env", "make"):
        (tmp_path / "bin" / program).symlink_to(shutil.which(program))
    return {"PATH": str(tmp_path / "bin")}


@pytest.mark.parametrize("target", ["down", "status", "shell"])
def test_make_without_python3_names_the_package_to_install(
    machine_without_python, tmp_path, target
):
    result = subprocess.run(
        ["make", target, "HOST=login"], cwd=tmp_path, env=machine_without_python,
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert result.returncode != 0
    first_lines = result.stderr.splitlines()[:2]
    assert first_lines[0] == "error: python3 is not installed"
    assert "apt-get install python3" in first_lines[1]


def test_make_demo_without_python3_first_runs_the_setup(machine_without_python, tmp_path):
    """The setup installs python3. In an earlier version, env printed an error first."""
    for name in PREREQUISITES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    setup = tmp_path / "tools/install-packages"
    setup.write_text("#!/bin/bash\necho 'setup: Debian packages' >&2; exit 77\n")
    setup.chmod(0o755)

    result = subprocess.run(
        ["make", "demo"], cwd=tmp_path, env=machine_without_python,
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert result.stderr.splitlines()[0] == "setup: Debian packages"


@pytest.fixture
def start_site(tmp_path):
    """Return a function that starts tools/site with a fake Ansible, as a terminal starts it."""
    ansible = tmp_path / "ansible-playbook"

    def start(program, *arguments):
        ansible.write_text(program)
        ansible.chmod(0o755)
        return subprocess.Popen(
            [CHECKOUT / "tools/site", *arguments],
            env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    return start


def test_an_interrupt_during_site_yml_prints_one_line_and_no_traceback(start_site):
    run = start_site(FAKE_ANSIBLE)
    assert run.stdout.readline() == "running site.yml\n"

    os.killpg(run.pid, signal.SIGINT)  # a terminal signals the whole process group
    output, _ = run.communicate(timeout=20)

    assert output.splitlines() == [
        "ended",
        "site.yml: interrupted; the next run of site.yml on these hosts continues",
    ]
    assert run.returncode == 130


def test_site_passes_options_and_the_exit_code_of_ansible(start_site):
    run = start_site('#!/bin/bash\necho "$@"; exit 2\n', "--diff", "--tags", "slurm")

    output, _ = run.communicate(timeout=20)

    assert output == "site.yml --diff --tags slurm\n"
    assert run.returncode == 2
