# SPDX-License-Identifier: Apache-2.0
"""Rendered scripts in a real bash, with a stand-in for srun and one for the log writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from tests.unit.workflow.node import NAME, RECORDER, SECRETS, Node, wait_for
from tests.unit.workflow.strategies import workflows

from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import render


def job(*commands, logging=False, env=(), **fields):
    """A workflow of these commands."""
    return from_graphql(
        {
            "resources": {"tasks": 2, "cpusPerTask": 2, "memPerCpu": 100},
            "enableLogging": logging,
            "env": [{"key": key, "value": value} for key, value in env],
            "steps": [{"run": {"command": command, **fields}} for command in commands],
        }
    )


class TestSteps:
    def test_step_is_one_srun_with_its_resources(self, node):
        node.run(job("true", resources={"tasks": 2, "cpusPerTask": 1, "memPerCpu": 50}))

        ((prolog, *call),) = node.calls
        assert prolog.startswith("--prolog=")
        assert call == [
            "--immediate=5", "--job-name=step-1", "--export=ALL", "--nodes=1-2", "--ntasks=2", "--cpus-per-task=1",
            "--mem-per-cpu=50M", "/bin/sh", "-c", "true",
        ]  # fmt: skip

    def test_steps_run_in_order_and_the_exit_code_is_that_of_the_failing_one(self, node):
        code, output = node.run(job("echo one", "echo two; exit 3", "echo three"))

        assert (code, output) == (3, "one\ntwo\n")
        assert node.left == []

    @pytest.mark.parametrize("logging", [False, True])
    @pytest.mark.parametrize("status", [0, 1, 3, 77, 255])
    def test_every_exit_code_comes_through(self, node, status, logging):
        assert node.run(job(f"exit {status}", logging=logging))[0] == status

    @pytest.mark.parametrize(
        ("asked", "mpi"), [("none", "none"), ("pmix_v4", "pmix"), ("pmi2", "pmi2")]
    )
    def test_mpi_and_binding_are_sruns(self, node, asked, mpi):
        """No version of PMIx is asked for: a Slurm that was built with another than 4 knows none by
        that name.
        """
        node.run(job("true", mpi=asked, disableCpuBinding=True))
        node.run(job("true"))

        one, other = node.calls
        assert {f"--mpi={mpi}", "--cpu-bind=none"} <= set(one)
        assert not any(word.startswith(("--mpi", "--cpu-bind")) for word in other)

    @pytest.mark.parametrize(
        ("ids", "expected"),
        [
            ({"mapUid": 1234, "mapGid": 567}, "1234 567"), ({"mapUid": 0}, f"0 {os.getgid()}"),
            ({"mapGid": 567}, f"{os.getuid()} 567"),
        ],
    )  # fmt: skip
    def test_command_may_seem_to_be_another_user(self, node, tmp_path, ids, expected):
        place = str(tmp_path / "x")

        assert (
            node.run(job('echo "$(id -u) $(id -g) $(pwd)"', workDir=place, **ids))[1]
            == f"{expected} {place}\n"
        )

    def test_tasks_run_as_often_as_asked(self, node):
        _, output = node.run(job('echo "$SLURM_PROCID of $SLURM_NTASKS"', resources={"tasks": 2}))

        assert output == "0 of 2\n1 of 2\n"

    def test_shell_is_the_wanted_one(self, node):
        assert node.run(job("echo ${BASH_VERSION:+bash}", shell="/bin/bash"))[1] == "bash\n"

    def test_work_dir_is_made_and_entered(self, node, tmp_path):
        place = str(tmp_path / "a 'dir'" / "$HOME")

        assert node.run(job("pwd", workDir=place))[1] == f"{place}\n"

    def test_step_runs_in_the_jobs_own_directory_which_is_private_and_goes(self, node):
        _, output = node.run(
            job('pwd; stat -c %a .; echo "$STORAGE_PATH"; touch output/x "$DEEPSQUARE_INPUT/y"')
        )

        place = f"{node.root}/cache/shared/{os.getuid()}/{NAME}.42"
        assert output == f"{place}\n700\n{place}\n"
        assert node.left == []


class TestEnvironment:
    def test_resources_and_storage_are_told(self, node):
        names = (
            "NTASKS CPUS_PER_TASK MEM_PER_CPU GPUS CPUS MEM DEEPSQUARE_TMP DEEPSQUARE_SHARED_TMP"
        )
        _, output = node.run(job(f"for n in {names}; do eval echo \\$$n; done"))

        cache = f"{node.root}/cache/persistent/user-{os.getuid()}"
        assert output.split() == ["2", "2", "100", "0", "4", "400", cache, cache]

    def test_variable_of_a_step_stands_over_one_of_the_job_and_ends_with_it(self, node):
        step = {"run": {"command": "echo $A $B", "env": [{"key": "A", "value": "step"}]}}
        workflow = from_graphql(
            {
                "resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
                "env": [{"key": "A", "value": "job"}, {"key": "B", "value": "b"}],
                "steps": [step, {"run": {"command": "echo $A $B"}}],
            }
        )

        assert node.run(workflow)[1] == "step b\njob b\n"

    def test_later_steps_see_what_earlier_ones_wrote(self, node):
        first = (
            """echo 'A=two words, $HOME' >>"$DEEPSQUARE_ENV"; printf 'B=x' >>"$DEEPSQUARE_ENV" """
        )

        assert node.run(job(first, 'echo "$A|$B"', env=[("A", "job")]))[1] == "two words, $HOME|x\n"

    def test_line_that_is_no_variable_is_ignored_and_named(self, node):
        code, output = node.run(
            job(
                'echo \'$(touch owned)\' >"$DEEPSQUARE_ENV"; echo UID=0 >>"$DEEPSQUARE_ENV"', "true"
            )
        )

        assert code == 0
        assert "ignored in DEEPSQUARE_ENV: $(touch owned)\n" in output
        assert "ignored in DEEPSQUARE_ENV: UID=0\n" in output

    def test_file_of_variables_may_be_removed(self, node):
        assert node.run(job('rm "$DEEPSQUARE_ENV"', "echo fine"))[1] == "fine\n"

    def test_variables_named_as_ours_change_nothing_of_ours(self, node, tmp_path):
        precious = tmp_path / "precious"
        precious.mkdir()
        names = [
            "storage",
            "STORAGE_PATH",
            "status",
            "writer",
            "private",
            "IFS",
            "gridstead_line",
            "SLURM_JOB_NAME",
        ]

        code, _ = node.run(
            job("exit 5", logging=True, env=[(name, str(precious)) for name in names])
        )

        assert code == 5
        assert precious.is_dir()
        assert node.left == []

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @example(workflow=job("0", env=[("IFS", "\x01")]))  # which takes apart what bash has quoted
    @given(workflow=workflows)
    def test_hostile_text_reaches_the_step_as_it_is_and_does_nothing(
        self, tmp_path_factory, workflow
    ):
        node = Node(tmp_path_factory.mktemp("node"))
        node.add("srun", f"#!{sys.executable} -IS\nhome = {str(node.home)!r}\n{RECORDER}")

        code, output = node.run(workflow)

        assert (code, output) == (0, "")
        assert [(call[2], call[-3], call[-1]) for call in node.calls] == [
            (f"--job-name={step.name or f'step-{number}'}", step.run.shell, step.run.command)
            for number, step in enumerate(workflow.steps, 1)
        ]
        for path, step in zip(sorted(node.home.glob("env.*")), workflow.steps, strict=True):
            environment = dict(
                pair.split("=", 1) for pair in path.read_bytes().decode().split("\0")
            )
            wanted = {variable.key: variable.value for variable in (*workflow.env, *step.run.env)}
            assert {key: environment.get(key) for key in wanted} == wanted
        assert not list(node.root.rglob("owned"))
        assert node.left == []


class TestLogging:
    def test_output_goes_to_the_writer_by_its_stream_and_to_the_file(self, node):
        code, output = node.run(job("echo one; echo two >&2", logging=True))

        assert (code, sorted(output.split())) == (0, ["one", "two"])
        assert (node.home / "log").read_text() == "one\n"
        assert (node.home / "log.stderr").read_text() == "two\n"

    def test_output_may_be_opened_by_its_name(self, node):
        code, _ = node.run(
            job(
                "echo one >/dev/stdout; echo two >/dev/stderr; echo 3 >>/proc/self/fd/2",
                logging=True,
            )
        )

        assert code == 0
        assert (node.home / "log").read_text() == "one\n"
        assert (node.home / "log.stderr").read_text() == "two\n3\n"

    def test_secrets_reach_the_writer_in_a_private_file_and_nobody_else(self, node):
        command = "env; tr '\\0' '\\n' </proc/$PPID/environ; ls -l /proc/self/fd"
        _, output = node.run(job(command, logging=True))

        assert (node.home / "access").read_text().splitlines() == list(SECRETS.values())
        assert (node.home / "modes").read_text().split() == ["600", "700"]
        assert "very-secret" not in output
        assert "GRIDSTEAD_" not in output
        assert node.left == []

    def test_script_itself_has_no_secret_in_its_environment(self, node):
        running = node.start(job("sleep 5", logging=True))
        wait_for((node.home / "access").exists)

        environment = Path(f"/proc/{running.pid}/environ").read_bytes()

        os.killpg(running.pid, signal.SIGTERM)
        running.communicate(timeout=20)
        assert b"SLURM_JOB_ID" in environment
        assert b"GRIDSTEAD_" not in environment

    def test_secrets_that_cannot_be_written_leave_nothing(self, node):
        node.add(
            "mktemp",
            '#!/bin/bash\nplace=$(/usr/bin/mktemp "$@") && mkdir "$place/logger" && echo "$place"\n',
        )

        assert node.run(job("echo never", logging=True))[0] == 1
        assert node.left == []

    @pytest.mark.parametrize(
        "place",
        [
            "private='' writer=''\n", "private=$(mktemp", "  umask 077\n", "    IFS= read", "exec 3<&-\n",
            "# --- The end, however it comes ---\n",
        ],
    )  # fmt: skip
    def test_signal_before_the_job_begins_leaves_no_secret(self, node, place):
        wanted = job("echo never", logging=True)
        signalled = render(wanted, site=node.site).replace(
            place, f"kill -TERM $$; exit\n{place}", 1
        )

        assert node.run(wanted, text=signalled) == (-signal.SIGTERM, "")
        assert node.left == []

    @pytest.mark.parametrize("variable", ["profile", "BASH_ENV"])
    def test_signal_while_the_customers_profile_is_read_leaves_no_secret(self, node, variable):
        """Nothing of the customer's runs between the writing of the secrets and the trap that
        removes them.
        """
        slow = f"if [[ $0 == */script && -n $(ls {node.root}/tmp) ]]; then kill -TERM $$; fi\n"
        if variable == "BASH_ENV":
            (node.home / "each").write_text(slow)
            slow = 'export BASH_ENV="$HOME/each"\n'
        with (node.home / ".bash_profile").open("a") as profile:
            profile.write(slow)

        code, output = node.run(job('echo "$BASH_ENV"', logging=True))

        assert (code, output) == (0, f"{node.home}/each\n" if variable == "BASH_ENV" else "\n")
        assert node.left == []

    def test_writer_that_is_missing_costs_no_output(self, node):
        (node.bin / "writer").unlink()

        code, output = node.run(job("echo one", "exit 4", logging=True))

        assert code == 4
        assert output.endswith("one\n")

    def test_writer_that_dies_costs_no_output(self, node):
        node.add("writer", "#!/bin/bash\nkill -9 $$\n")

        code, output = node.run(job("echo one", "sleep 0.3; echo two; exit 4", logging=True))

        assert code == 4
        assert "one\ntwo\n" in output

    def test_job_waits_until_the_writer_has_sent_all(self, node):
        node.add("writer", '#!/bin/bash\ncat\nsleep 0.3\ntouch "$HOME/sent"\n')

        node.run(job("echo one", logging=True))

        assert (node.home / "sent").exists()

    def test_environment_without_an_address_is_the_writers_to_bear(self, node):
        code, output = node.run(job("echo one", logging=True), **dict.fromkeys(SECRETS, ""))

        assert (code, output) == (0, "one\n")


class TestSignals:
    def test_run_that_takes_too_long_is_killed_whole(self, node):
        with pytest.raises(subprocess.TimeoutExpired):
            node.run(job("sleep 50"), patience_s=0.5)

        assert [running.returncode for running in node.running] == [-signal.SIGKILL]

    @pytest.mark.parametrize("logging", [False, True])
    def test_end_by_slurm_leaves_nothing_and_keeps_the_last_line(self, node, logging):
        """Slurm signals every process of the job."""
        command = (
            "trap 'echo last; exit 9' TERM; echo started >started; while true; do sleep 0.05; done"
        )
        running = node.start(job(command, logging=logging))
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running.pid, signal.SIGTERM)
        output, _ = running.communicate(timeout=20)

        assert running.returncode in (9, 143)
        assert b"last" in output
        assert node.left == []
        if logging:
            assert "last" in (node.home / "log").read_text()


@pytest.mark.parametrize(
    ("example", "code", "expected"),
    [
        ("hello-world", 0, "Hello, world! I am "),
        ("steps-and-environment", 0, "Good morning, dear provider\n4 words in "),
        ("failing-step", 3, "so far, so good\n"),
        ("failing-step", 3, "this cannot go on\n"),
        ("parallel-tasks", 0, "task 3 of 4 on "),
        ("loops-and-handlers", 0, "1. 5 north\n2. 5 south\n3. 4 west\n"),
        ("loops-and-handlers", 0, "east was not measured (code 1)\n"),
        ("loops-and-handlers", 0, "all tidy\n"),  # what cat complains of may stand between
        ("beside-each-other", 0, "42\n"),
    ],
)
def test_example_does_what_it_says(node, example, code, expected):
    node.add("sleep", "#!/bin/sh\n[ $1 = 1 ] && exec /bin/sleep 0.8\nexec /bin/sleep 0.05\n")

    status, output = node.run(parse_workflow(Path(f"examples/{example}.yaml").read_text()))

    assert status == code
    assert expected in output
