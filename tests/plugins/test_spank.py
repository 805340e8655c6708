# SPDX-License-Identifier: Apache-2.0
"""Tests of the SPANK plugin without Slurm.

The tests run the unit tests of the plugin's C modules, and the plugin in a fake slurmstepd.
"""

import re
import shutil
import socket
import subprocess
from dataclasses import dataclass

import pytest
from tests.plugins.conftest import PLUGINS, build

# The step ids that Slurm gives to the batch script and to the extern step.
BATCH = 4294967291
EXTERN = 4294967292
SIGALRM = 14
VALGRIND = ["--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite"]


@dataclass(frozen=True)
class Run:
    """The result of a run of the fake slurmstepd.

    Attributes:
        return_values: The return values of the plugin's callbacks.
        duration_ms: The duration of the run.
        child_exits: How each child process ended: ``exit`` or ``signal``, and the number.
    """

    return_values: list[str]
    duration_ms: int
    child_exits: list[tuple[str, int]]


@pytest.fixture
def agent():
    """A UDP socket that receives the reports in place of the agent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        yield receiver


@pytest.fixture
def run_stepd(spank_programs, spank_plugin):
    """A function that runs the fake slurmstepd with the plugin.

    With ``linked``, the plugin is linked into the program, and sanitizers check both of them.
    """

    def run(*options, context="remote", step=BATCH, munge="ok", wrapper=(), linked=False):
        program = "stepd_sanitized" if linked else "stepd"
        plugin = "-" if linked else spank_plugin
        result = subprocess.run(
            [*wrapper, spank_programs / program, plugin, context, str(step), munge, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert result.stderr == ""
        assert result.returncode == 0
        return_line, duration, *exit_lines = result.stdout.splitlines()
        child_exits = []
        for line in exit_lines:
            _, kind, number = line.split()
            child_exits.append((kind, int(number)))
        return Run(
            return_values=return_line.split()[1:],
            duration_ms=int(duration.split()[1]),
            child_exits=child_exits,
        )

    return run


def address(receiver):
    """Return the plugin option that sets the agent address to that of ``receiver``."""
    return "agent={}:{}".format(*receiver.getsockname())


def receive(receiver, count):
    """Return the texts of the next ``count`` datagrams, sorted."""
    return sorted(receiver.recv(65536).decode() for _ in range(count))


@pytest.mark.parametrize("part", ["report", "options"])
def test_module_passes_under_valgrind(tool, spank_programs, part):
    result = subprocess.run(
        [tool("valgrind"), *VALGRIND, spank_programs / f"test_{part}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("part", ["report", "options"])
def test_module_passes_under_sanitizers(spank_programs, part):
    result = subprocess.run(
        [spank_programs / f"test_{part}_sanitized"], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")


def test_a_hanging_munge_causes_no_delay_and_is_ended_by_sigalrm(run_stepd, agent):
    run = run_stepd(address(agent), munge="hang")

    assert run.duration_ms < 500
    assert run.child_exits == [("signal", SIGALRM)] * 2


def test_a_hanging_munge_is_ended_under_sanitizers(run_stepd, agent):
    run = run_stepd(address(agent), munge="hang", linked=True)

    assert run.child_exits == [("signal", SIGALRM)] * 2


def test_plugin_returns_success_if_munge_fails(run_stepd, agent):
    run = run_stepd(address(agent), munge="fail")

    assert run.return_values == ["0", "0"]
    assert run.child_exits == [("exit", 0)] * 2


def test_plugin_returns_success_if_no_agent_listens(run_stepd):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed_socket:
        closed_socket.bind(("127.0.0.1", 0))
        option = address(closed_socket)

    run = run_stepd(option)

    assert run.return_values == ["0", "0"]
    assert run.child_exits == [("exit", 0)] * 2


@pytest.mark.parametrize("options", [(), ("colour=blue",), ("agent=controller:6831",)])
def test_plugin_returns_success_with_unusable_options(run_stepd, options):
    run = run_stepd(*options)

    assert run.return_values == ["0", "0"]
    assert run.child_exits == [("exit", 0)] * 2


def test_the_plugin_does_nothing_outside_slurmstepd(run_stepd, agent):
    run = run_stepd(address(agent), context="local")

    assert run.return_values == ["0", "0"]
    assert run.child_exits == []


@pytest.mark.parametrize("step", [0, 7, 4294967290])
def test_only_batch_and_extern_steps_are_reported(run_stepd, agent, step):
    run = run_stepd(address(agent), step=step)

    assert run.child_exits == []


@pytest.mark.parametrize(("step", "word"), [(BATCH, "batch"), (EXTERN, "extern")])
def test_start_and_end_reports_are_credentials_valid_for_one_minute(run_stepd, agent, step, word):
    node = socket.gethostname().split(".")[0]

    run_stepd(address(agent), step=step)

    end, start = receive(agent, 2)
    # The fake slurmstepd has job 4711 and uid 200001. Two times follow the node's name: the time at
    # which slurmstepd loaded the plugin, and the time of the event.
    pattern = rf"CREDENTIAL:60:gridstead1 {{}} 4711 200001 {word} {re.escape(node)} (\d+) (\d+)"
    start_match = re.fullmatch(pattern.format("start"), start)
    end_match = re.fullmatch(pattern.format("end"), end)
    assert start_match
    assert end_match
    assert start_match[1] == start_match[2]
    assert end_match[1] == start_match[1]
    assert int(end_match[1]) <= int(end_match[2])


def test_a_report_is_sent_despite_an_unknown_option(run_stepd, agent):
    run_stepd("colour=blue", address(agent))

    assert len(receive(agent, 2)) == 2


@pytest.mark.parametrize("munge", ["ok", "fail", "hang"])
def test_plugin_is_clean_under_valgrind(tool, run_stepd, agent, munge):
    """If valgrind finds an error, the process exits with code 99.

    A process may also be ended by SIGALRM, because valgrind is slow. This is no error.
    """
    run = run_stepd(
        address(agent),
        munge=munge,
        wrapper=[tool("valgrind"), *VALGRIND, "--child-silent-after-fork=no"],
    )

    assert len(run.child_exits) == 2
    allowed_exits = {("signal", SIGALRM)}
    if munge != "hang":
        allowed_exits.add(("exit", 0))
    assert set(run.child_exits) <= allowed_exits


@pytest.mark.parametrize("munge", ["ok", "fail"])
def test_plugin_is_clean_under_sanitizers(run_stepd, agent, munge):
    run = run_stepd(address(agent), munge=munge, linked=True)

    assert run.child_exits == [("exit", 0)] * 2


def test_the_plugin_exports_only_the_symbols_that_slurm_needs(tool, spank_plugin):
    result = subprocess.run(
        [tool("nm"), "--dynamic", "--defined-only", spank_plugin],
        capture_output=True,
        text=True,
        check=True,
    )

    assert sorted(line.split()[-1] for line in result.stdout.splitlines()) == [
        "plugin_name",
        "plugin_type",
        "plugin_version",
        "slurm_spank_exit",
        "slurm_spank_init_post_opt",
        "spank_plugin_version",
    ]


def test_plugin_is_hardened(tool, spank_plugin):
    result = subprocess.run(
        [tool("readelf"), "--wide", "--dynamic", "--program-headers", spank_plugin],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "GNU_RELRO" in result.stdout
    assert "BIND_NOW" in result.stdout
    assert re.search(r"GNU_STACK.* RW ", result.stdout)  # the stack is not executable


def test_make_does_nothing_if_the_plugin_is_up_to_date(tool, spank_plugin):
    sources = spank_plugin.parent.parent / "spank"
    result = subprocess.run(
        [tool("make"), "--question", "-C", sources, "install", f"PREFIX={spank_plugin.parent}"],
        check=False,
    )

    assert result.returncode == 0


def test_a_downgraded_host_gets_the_plugin_of_the_older_slurm(tool, tmp_path):
    """A Slurm does not load a plugin that was built for a newer Slurm.

    So make must install the plugin of the older Slurm, even if the installed plugin is newer.
    """
    sources, install_folder = tmp_path / "spank", tmp_path / "installed"
    shutil.copytree(PLUGINS / "spank", sources, ignore=shutil.ignore_patterns("build"))

    def install(number):
        header = tmp_path / "slurm_version.h"
        header.write_text(f"#define SLURM_VERSION_NUMBER {number}\n")
        build(tool, sources, "install", f"PREFIX={install_folder}", f"SLURM_HEADER={header}")
        return (install_folder / "gridstead.so").read_bytes()

    install("0x180b05")
    (sources / "build/0x180b05/gridstead.so").write_bytes(b"of the old Slurm")
    newer = install("0x190500")

    assert newer != b"of the old Slurm"
    assert install("0x180b05") == b"of the old Slurm"
    assert sorted(path.name for path in install_folder.iterdir()) == [
        "gridstead.so",
        "gridstead.so.for-0x180b05",
    ]
