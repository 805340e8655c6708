# SPDX-License-Identifier: Apache-2.0
"""Rendered scripts in a real bash, with a simulated srun and log writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from tests.unit.workflow.node import JOB_NAME, RECORDING_SRUN, SECRETS, Node, wait_for
from tests.unit.workflow.strategies import workflows

from gridstead.workflow.parse import from_graphql, parse_workflow
from gridstead.workflow.render import render


def job(*commands, logging=False, env=(), **fields):
    """Return a workflow of these commands."""
    return from_graphql(
        {
            "resources": {"tasks": 2, "cpusPerTask": 2, "memPerCpu": 100},
            "enableLogging": logging,
            "env": [{"key": key, "value": value} for key, value in env],
            "steps": [{"run": {"command": command, **fields}} for command in commands],
        }
    )


class TestSteps:
    def test_a_step_is_one_srun_with_its_resources(self, node):
        node.run(job("true", resources={"tasks": 2, "cpusPerTask": 1, "memPerCpu": 50}))

        (words,) = node.srun_calls
        assert words[0].startswith("--prolog=")
        assert words[1:] == [
            "--immediate=5",
            "--job-name=step-1",
            "--export=ALL",
            "--nodes=1-2",
            "--ntasks=2",
            "--cpus-per-task=1",
            "--mem-per-cpu=50M",
            "/bin/sh",
            "-c",
            "true",
        ]

    def test_steps_run_in_order_until_one_fails(self, node):
        code, output = node.run(job("echo one", "echo two; exit 3", "echo three"))

        assert (code, output) == (3, "one\ntwo\n")
        assert node.leftover_files == []

    @pytest.mark.parametrize("logging", [False, True])
    @pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
    def test_a_job_has_the_exit_code_of_its_command(self, node, code, logging):
        assert node.run(job(f"exit {code}", logging=logging))[0] == code

    @pytest.mark.parametrize(
        ("mpi", "option"), [("none", "none"), ("pmix_v4", "pmix"), ("pmi2", "pmi2")]
    )
    def test_mpi_and_cpu_binding_are_options_of_srun(self, node, mpi, option):
        """The option has no version of PMIx: Slurm refuses a version that it does not have."""
        node.run(job("true", mpi=mpi, disableCpuBinding=True))
        node.run(job("true"))

        first, second = node.srun_calls
        assert {f"--mpi={option}", "--cpu-bind=none"} <= set(first)
        assert not any(word.startswith(("--mpi", "--cpu-bind")) for word in second)

    @pytest.mark.parametrize(
        ("ids", "expected"),
        [
            ({"mapUid": 1234, "mapGid": 567}, "1234 567"),
            ({"mapUid": 0}, f"0 {os.getgid()}"),
            ({"mapGid": 567}, f"{os.getuid()} 567"),
        ],
    )
    def test_a_command_can_map_to_another_user(self, node, tmp_path, ids, expected):
        directory = str(tmp_path / "x")

        _, output = node.run(job('echo "$(id -u) $(id -g) $(pwd)"', workDir=directory, **ids))

        assert output == f"{expected} {directory}\n"

    def test_a_step_runs_once_per_task(self, node):
        _, output = node.run(job('echo "$SLURM_PROCID of $SLURM_NTASKS"', resources={"tasks": 2}))

        assert output == "0 of 2\n1 of 2\n"

    def test_the_command_runs_in_the_shell_of_the_step(self, node):
        assert node.run(job("echo ${BASH_VERSION:+bash}", shell="/bin/bash"))[1] == "bash\n"

    def test_the_working_directory_is_created_and_entered(self, node, tmp_path):
        directory = str(tmp_path / "a 'dir'" / "$HOME")

        assert node.run(job("pwd", workDir=directory))[1] == f"{directory}\n"

    def test_a_step_runs_in_a_private_directory_that_is_removed_with_the_job(self, node):
        _, output = node.run(
            job('pwd; stat -c %a .; echo "$STORAGE_PATH"; touch output/x "$DEEPSQUARE_INPUT/y"')
        )

        directory = f"{node.root}/cache/shared/{os.getuid()}/{JOB_NAME}.42"
        assert output == f"{directory}\n700\n{directory}\n"
        assert node.leftover_files == []


class TestEnvironment:
    def test_resources_and_storage_are_variables(self, node):
        names = (
            "NTASKS CPUS_PER_TASK MEM_PER_CPU GPUS CPUS MEM DEEPSQUARE_TMP DEEPSQUARE_SHARED_TMP"
        )
        _, output = node.run(job(f"for n in {names}; do eval echo \\$$n; done"))

        cache = f"{node.root}/cache/persistent/user-{os.getuid()}"
        assert output.split() == ["2", "2", "100", "0", "4", "400", cache, cache]

    def test_a_step_without_a_container_has_the_disk_and_the_caches_of_container_programs(
        self, node
    ):
        names = (
            "DEEPSQUARE_DISK_TMP DEEPSQUARE_DISK_WORLD_TMP ENROOT_CACHE_PATH ENROOT_DATA_PATH"
            " ENROOT_RUNTIME_PATH APPTAINER_TMPDIR"
        )
        _, output = node.run(job(f"for n in {names}; do eval echo \\$$n; done"))

        disk = f"{node.root}/cache/disk"
        own = f"{disk}/tmp/user-{os.getuid()}"
        caches = [f"{own}/enroot/cache", f"{own}/enroot/data", f"/tmp/enroot-{os.getuid()}"]
        assert output.split() == [own, f"{disk}/world-tmp", *caches, "/tmp"]

    def test_a_variable_of_a_step_hides_a_variable_of_the_job_in_that_step(self, node):
        step = {"run": {"command": "echo $A $B", "env": [{"key": "A", "value": "step"}]}}
        workflow = from_graphql(
            {
                "resources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
                "env": [{"key": "A", "value": "job"}, {"key": "B", "value": "b"}],
                "steps": [step, {"run": {"command": "echo $A $B"}}],
            }
        )

        assert node.run(workflow)[1] == "step b\njob b\n"

    def test_later_steps_have_the_variables_that_earlier_steps_wrote(self, node):
        first = (
            """echo 'A=two words, $HOME' >>"$DEEPSQUARE_ENV"; printf 'B=x' >>"$DEEPSQUARE_ENV" """
        )

        assert node.run(job(first, 'echo "$A|$B"', env=[("A", "job")]))[1] == "two words, $HOME|x\n"

    def test_a_line_without_a_valid_variable_is_ignored_with_a_message(self, node):
        code, output = node.run(
            job(
                'echo \'$(touch owned)\' >"$DEEPSQUARE_ENV"; echo UID=0 >>"$DEEPSQUARE_ENV"', "true"
            )
        )

        assert code == 0
        assert "ignored in DEEPSQUARE_ENV: $(touch owned)\n" in output
        assert "ignored in DEEPSQUARE_ENV: UID=0\n" in output

    def test_comment_lines_of_the_file_of_variables_are_ignored_silently(self, node):
        first = r"""printf '# a comment\n#B=1\nA=2\n' >"$DEEPSQUARE_ENV" """

        assert node.run(job(first, 'echo "$A$B"'))[1] == "2\n"

    def test_the_file_of_variables_may_be_removed(self, node):
        assert node.run(job('rm "$DEEPSQUARE_ENV"', "echo fine"))[1] == "fine\n"

    def test_variables_with_names_of_the_script_do_not_change_the_script(self, node, tmp_path):
        directory = tmp_path / "precious"
        directory.mkdir()
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
            job("exit 5", logging=True, env=[(name, str(directory)) for name in names])
        )

        assert code == 5
        assert directory.is_dir()
        assert node.leftover_files == []

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @example(workflow=job("0", env=[("IFS", "\x01")]))  # this IFS splits quoted words in bash
    @given(workflow=workflows)
    def test_hostile_text_reaches_the_step_unchanged_and_is_not_executed(
        self, tmp_path_factory, workflow
    ):
        node = Node(tmp_path_factory.mktemp("node"))
        node.add_program(
            "srun", f"#!{sys.executable} -IS\nhome = {str(node.home)!r}\n{RECORDING_SRUN}"
        )

        code, output = node.run(workflow)

        assert (code, output) == (0, "")
        environments = sorted(node.home.glob("env.*"))
        for number, step in enumerate(workflow.steps):
            call = node.srun_calls[number]
            assert call[2] == f"--job-name={step.name or f'step-{number + 1}'}"
            assert (call[-3], call[-1]) == (step.run.shell, step.run.command)
            pairs = environments[number].read_bytes().decode().split("\0")
            environment = dict(pair.split("=", 1) for pair in pairs)
            expected = {variable.key: variable.value for variable in (*workflow.env, *step.run.env)}
            assert expected.items() <= environment.items()
        assert len(node.srun_calls) == len(environments) == len(workflow.steps)
        assert not list(node.root.rglob("owned"))
        assert node.leftover_files == []


class TestLogging:
    def test_the_output_goes_to_the_file_and_to_the_writer_by_stream(self, node):
        code, output = node.run(job("echo one; echo two >&2", logging=True))

        assert code == 0
        assert sorted(output.split()) == ["one", "two"]
        assert (node.home / "log").read_text() == "one\n"
        assert (node.home / "log.stderr").read_text() == "two\n"

    def test_the_output_can_be_opened_by_its_path(self, node):
        code, _ = node.run(
            job(
                "echo one >/dev/stdout; echo two >/dev/stderr; echo 3 >>/proc/self/fd/2",
                logging=True,
            )
        )

        assert code == 0
        assert (node.home / "log").read_text() == "one\n"
        assert (node.home / "log.stderr").read_text() == "two\n3\n"

    def test_only_the_writer_receives_the_secrets_in_a_private_file(self, node):
        command = "env; tr '\\0' '\\n' </proc/$PPID/environ; ls -l /proc/self/fd"
        _, output = node.run(job(command, logging=True))

        assert (node.home / "access").read_text().splitlines() == list(SECRETS.values())
        assert (node.home / "modes").read_text().split() == ["600", "700"]
        assert "very-secret" not in output
        assert "GRIDSTEAD_" not in output
        assert node.leftover_files == []

    def test_the_script_has_no_secret_in_its_environment(self, node):
        running_job = node.start(job("sleep 5", logging=True))
        wait_for((node.home / "access").exists)

        environment = Path(f"/proc/{running_job.pid}/environ").read_bytes()

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=20)
        assert b"SLURM_JOB_ID" in environment
        assert b"GRIDSTEAD_" not in environment

    def test_secrets_that_cannot_be_written_leave_no_file(self, node):
        # A file cannot be written if there is a folder of the same name.
        node.add_program(
            "mktemp",
            '#!/bin/bash\nfolder=$(/usr/bin/mktemp "$@") && mkdir "$folder/logger"\n'
            'echo "$folder"\n',
        )

        assert node.run(job("echo never", logging=True))[0] == 1
        assert node.leftover_files == []

    @pytest.mark.parametrize(
        "next_line",
        [
            "private='' writer=''\n", "private=$(mktemp", "  umask 077\n", "    IFS= read",
            "exec 3<&-\n", "# --- Cleanup ---\n",
        ],
    )  # fmt: skip
    def test_a_signal_before_the_start_of_the_job_leaves_no_secret(self, node, next_line):
        # The signal is inserted before one line of the script.
        workflow = job("echo never", logging=True)
        text = render(workflow, paths=node.script_paths)
        text_with_signal = text.replace(next_line, f"kill -TERM $$; exit\n{next_line}", 1)

        assert node.run(workflow, text=text_with_signal) == (-signal.SIGTERM, "")
        assert node.leftover_files == []

    @pytest.mark.parametrize("variable", ["profile", "BASH_ENV"])
    def test_a_signal_in_the_customers_profile_leaves_no_secret(self, node, variable):
        """The customer's code runs either before the secrets are written, or after the trap that
        removes them is set.
        """
        has_secrets = f"$0 == */script && -n $(ls {node.root}/tmp)"
        profile_code = f"if [[ {has_secrets} ]]; then kill -TERM $$; fi\n"
        if variable == "BASH_ENV":
            (node.home / "each").write_text(profile_code)
            profile_code = 'export BASH_ENV="$HOME/each"\n'
        with (node.home / ".bash_profile").open("a") as profile:
            profile.write(profile_code)

        code, output = node.run(job('echo "$BASH_ENV"', logging=True))

        assert code == 0
        assert output == (f"{node.home}/each\n" if variable == "BASH_ENV" else "\n")
        assert node.leftover_files == []

    def test_no_output_is_lost_if_the_writer_is_missing(self, node):
        (node.bin / "writer").unlink()

        code, output = node.run(job("echo one", "exit 4", logging=True))

        assert code == 4
        assert output.endswith("one\n")

    def test_no_output_is_lost_if_the_writer_is_killed(self, node):
        node.add_program("writer", "#!/bin/bash\nkill -9 $$\n")

        code, output = node.run(job("echo one", "sleep 0.3; echo two; exit 4", logging=True))

        assert code == 4
        assert "one\ntwo\n" in output

    def test_a_job_waits_until_the_writer_has_sent_everything(self, node):
        node.add_program("writer", '#!/bin/bash\ncat\nsleep 0.3\ntouch "$HOME/sent"\n')

        node.run(job("echo one", logging=True))

        assert (node.home / "sent").exists()

    def test_a_missing_address_of_the_logger_does_not_fail_the_job(self, node):
        code, output = node.run(job("echo one", logging=True), **dict.fromkeys(SECRETS, ""))

        assert (code, output) == (0, "one\n")


class TestSignals:
    def test_a_job_that_takes_too_long_is_killed_with_all_processes(self, node):
        with pytest.raises(subprocess.TimeoutExpired):
            node.run(job("sleep 50"), timeout_s=0.5)

        assert [running_job.returncode for running_job in node.jobs] == [-signal.SIGKILL]

    @pytest.mark.parametrize("logging", [False, True])
    def test_a_signal_of_slurm_keeps_the_last_output_and_leaves_no_files(self, node, logging):
        """Slurm signals every process of the job."""
        command = (
            "trap 'echo last; exit 9' TERM; echo started >started; while true; do sleep 0.05; done"
        )
        running_job = node.start(job(command, logging=logging))
        wait_for(lambda: list(node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        output, _ = running_job.communicate(timeout=20)

        assert running_job.returncode in (9, 143)
        assert b"last" in output
        assert node.leftover_files == []
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
        ("loops-and-handlers", 0, "all tidy\n"),
        ("launched-steps", 0, "42\n"),
    ],
)
def test_an_example_prints_the_expected_output(node, example, code, expected):
    # This simulated sleep shortens the pauses of the examples.
    node.add_program(
        "sleep", "#!/bin/sh\n[ $1 = 1 ] && exec /bin/sleep 0.8\nexec /bin/sleep 0.05\n"
    )

    job_code, output = node.run(parse_workflow(Path(f"examples/{example}.yaml").read_text()))

    assert job_code == code
    assert expected in output
