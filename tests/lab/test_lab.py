# SPDX-License-Identifier: Apache-2.0
"""Tests of the lab tool with real hosts. They need root, systemd-nspawn and the image."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from tests.lab.leftovers import find_remains

pytestmark = pytest.mark.skipif(
    "CI" not in os.environ and (os.geteuid() != 0 or shutil.which("systemd-nspawn") is None),
    reason="needs root and systemd-nspawn",
)
START_TIME_FIELD = 22  # of /proc/PID/stat, see proc_pid_stat(5); the first field has number 1
ALLOCATE_MEMORY = "python3 -c 'b = bytearray({mb} * 2**20); print(len(b))'"
# Two calls of fork make four processes, which are busy for 2 s. Two of the processes print their
# own CPU time plus that of one child, in seconds.
USE_TWO_CORES = """python3 -c '
import os, time
for _ in range(2): pid = os.fork()
end = time.monotonic() + 2
while time.monotonic() < end: pass
if pid: os.wait(); print(sum(os.times()[:4]))
'"""


# Commands that run a program with a memory limit of 20 MiB, by the version of the hosts' cgroups.
WITH_MEMORY_LIMIT = {
    "v1": (
        "set -e; cd /cgv1/memory; mkdir -p job; echo 20M > job/memory.limit_in_bytes;"
        " echo $$ > job/cgroup.procs; {}"
    ),
    "v2": "systemd-run --wait --pipe --quiet -p MemoryMax=20M -p MemorySwapMax=0 {}",
}


def assert_host_can_limit_its_jobs(lab, host):
    """Assert that only a job that exceeds the memory limit of the job is killed."""
    version = json.loads(lab.run("status", "--json").stdout)["cgroup"]
    command = WITH_MEMORY_LIMIT[version]
    assert lab.run_on_host(host, command.format(ALLOCATE_MEMORY.format(mb=1))).returncode == 0
    assert lab.run_on_host(host, command.format(ALLOCATE_MEMORY.format(mb=60))).returncode != 0


def test_up_with_an_invalid_topology_fails_without_changes(lab):
    lab.topology.write_text("{}")

    result = lab.run("up", "--topology", str(lab.topology), check=False)

    assert result.returncode == 1
    assert "topology has no hosts" in result.stderr
    assert find_remains(lab.names) == []


def test_down_without_a_lab_succeeds_without_output(lab):
    result = lab.run("down")

    assert result.stdout == ""
    assert result.stderr == ""


def test_up_starts_hosts_with_different_identities(lab):
    lab.up()

    for host in ("left", "right"):
        result = lab.run_on_host(
            host, "hostname; systemctl is-system-running --wait; stat -c %a /dev/fuse /dev/net/tun"
        )
        assert result.stdout.split() == [host, "running", "666", "666"], result.stderr
    print_identity = "cat /etc/machine-id /etc/ssh/*.pub"
    left_identity = lab.run_on_host("left", print_identity)
    right_identity = lab.run_on_host("right", print_identity)
    assert left_identity.stdout != right_identity.stdout


def test_a_second_up_changes_nothing(lab):
    lab.up()
    before = json.loads(lab.run("status", "--json").stdout)
    # The boot id is word 0 of the output. Field N of /proc/1/stat is therefore word N.
    print_start_time = "cat /proc/sys/kernel/random/boot_id /proc/1/stat"
    start_time = lab.run_on_host("left", print_start_time).stdout.split()[START_TIME_FIELD]

    lab.up()

    after = json.loads(lab.run("status", "--json").stdout)
    assert before["hosts"].keys() == after["hosts"].keys()
    fields = lab.run_on_host("left", print_start_time).stdout.split()
    assert fields[START_TIME_FIELD] == start_time


def test_up_is_refused_while_the_lab_has_a_different_set_of_hosts(lab):
    lab.up()

    result = lab.run("up", "--topology", str(lab.topology), "--hosts", "left", check=False)

    assert result.returncode == 1
    assert "is up from another topology" in result.stderr


def test_the_kernel_kills_a_process_that_exceeds_the_memory_limit(lab):
    lab.up()

    assert lab.run_on_host("left", ALLOCATE_MEMORY.format(mb=100)).stdout.strip() == str(
        100 * 2**20
    )
    assert lab.run_on_host("left", ALLOCATE_MEMORY.format(mb=300)).returncode != 0
    assert lab.run_on_host("left", "systemctl is-system-running --wait").stdout.strip() == "running"


def test_processes_get_no_more_cpu_time_than_the_limit_of_their_host(lab):
    lab.up()

    cpu_s = float(lab.run_on_host("left", USE_TWO_CORES).stdout.split()[0])

    duration_s, cores, tolerance = 2, 0.5, 1.5
    assert cpu_s < duration_s * cores * tolerance


def test_a_compute_host_can_limit_its_own_jobs(lab):
    lab.up()

    assert_host_can_limit_its_jobs(lab, "left")
    assert lab.run_on_host("right", "ls /cgv1").returncode != 0


def test_a_killed_host_keeps_its_disk(lab):
    lab.up()
    lab.run_on_host("left", "touch /srv/kept; sync")

    lab.run("kill", "left")

    states = json.loads(lab.run("status", "--json").stdout)["hosts"]
    assert not states["left"]["running"]
    assert states["right"]["running"]

    lab.run("start", "left")

    assert lab.run_on_host("left", "ls /srv").stdout.split() == ["kept"]
    assert lab.run_on_host("left", ALLOCATE_MEMORY.format(mb=300)).returncode != 0


def test_a_host_can_be_added_to_a_running_lab_and_removed_again(lab):
    lab.up()

    lab.run("add", "third", "--like", "left")

    states = json.loads(lab.run("status", "--json").stdout)["hosts"]
    assert states["third"]["running"]
    assert states["third"]["groups"] == ["one"]
    assert lab.run_on_host("third", "hostname").stdout == "third\n"
    assert_host_can_limit_its_jobs(lab, "third")
    assert "third" in lab.run("add", "third", "--like", "left", check=False).stderr
    assert lab.up().stdout.endswith("is up: left right third\n")

    lab.run("remove", "third")

    assert "third" not in "\n".join(find_remains(lab.names))
    assert lab.run("exec", "third", "--", "true", check=False).returncode == 1


def test_exec_returns_the_exit_code_and_passes_the_arguments(lab):
    lab.up()

    assert lab.run_on_host("right", "exit 7").returncode == 7
    assert lab.run("exec", "right", "--", "echo", "a  b", "$HOME").stdout == "a  b $HOME\n"


def test_down_removes_everything(lab):
    lab.up()
    assert find_remains(lab.names)

    lab.run("down")

    assert find_remains(lab.names) == []
    assert lab.run("down").stdout == ""


def test_down_after_a_killed_up_removes_everything(lab):
    """The test kills `up` at eight times, one in each eighth of its duration."""
    start_s = time.monotonic()
    lab.up()
    duration_s = time.monotonic() - start_s
    lab.run("down")
    rng = random.Random(2)

    for part in range(8):
        run = lab.start_up_in_background()
        time.sleep(duration_s * (part + rng.random()) / 8)
        run.send_signal(signal.SIGKILL)
        run.wait()
        lab.run("down")

        assert find_remains(lab.names) == [], f"killed in part {part} of {duration_s:.1f} s"


def test_down_and_up_succeed_after_a_killed_down(lab):
    rng = random.Random(3)
    latest_kill_s = 0.8

    for part in range(4):
        lab.up()
        run = subprocess.Popen(lab.command("down"), stdout=subprocess.DEVNULL)
        time.sleep(latest_kill_s * (part + rng.random()) / 4)
        run.send_signal(signal.SIGKILL)
        run.wait()
        if part % 2:
            lab.up()
            assert lab.run_on_host("left", "hostname").stdout == "left\n"
        lab.run("down")

        assert find_remains(lab.names) == [], f"killed in part {part}"


def test_up_after_a_reboot_creates_the_hosts_again(lab):
    """A reboot removes the objects in the kernel but not the files."""
    lab.up()
    state = (lab.names.state_folder / "state.json").read_text()
    lab.run("down")
    lab.names.state_folder.mkdir(parents=True)
    (lab.names.state_folder / "state.json").write_text(state)

    lab.up()

    assert lab.run_on_host("left", "hostname").stdout == "left\n"


def test_up_succeeds_after_a_killed_up(lab):
    run = lab.start_up_in_background()
    while not lab.names.run_folder.exists():
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()

    lab.up()

    assert lab.run_on_host("right", "hostname").stdout == "right\n"


def test_down_kills_only_the_processes_of_the_lab(lab):
    unrelated_process = subprocess.Popen(["sleep", "60"])
    marked_process = subprocess.Popen(
        ["sleep", "60"], env=os.environ | {"GRIDSTEAD_LAB": lab.names.prefix}
    )
    run = lab.start_up_in_background()
    while not lab.names.run_folder.exists():
        time.sleep(0.01)

    lab.run("down")

    assert run.wait(5) == -signal.SIGKILL
    assert marked_process.wait(5) == -signal.SIGKILL
    assert unrelated_process.poll() is None
    assert find_remains(lab.names) == []
    unrelated_process.kill()
    unrelated_process.wait()


def test_a_lab_of_another_owner_is_not_changed(lab):
    lab.names.run_folder.mkdir(parents=True)
    lab.names.owner_file.write_text("lab other of /somewhere")

    for command in ("up", "down"):
        result = lab.run(command, check=False)
        assert result.returncode == 1
        assert "belongs to lab other of /somewhere" in result.stderr

    lab.names.owner_file.unlink()


def test_down_ends_persistent_ssh_connections(lab):
    lab.up()
    lab.names.ssh_socket_folder.mkdir()
    ssh = ["ssh", "-F", str(lab.names.state_folder / "ssh_config")]
    ssh += ["-o", "ControlMaster=yes", "-o", "ControlPersist=60"]
    ssh += ["-o", f"ControlPath={lab.names.ssh_socket_folder}/kept"]
    subprocess.run([*ssh, "left", "true"], check=True)
    assert "ssh: " in "\n".join(find_remains(lab.names))

    lab.run("down")

    assert find_remains(lab.names) == []


def test_down_does_not_remove_another_lab(make_lab):
    first, second = make_lab(f"test{os.getpid()}a"), make_lab(f"test{os.getpid()}b")
    first.up()
    second.up()
    first_state = json.loads(first.run("status", "--json").stdout)
    second_state = json.loads(second.run("status", "--json").stdout)

    first.run("down")

    assert first_state["network"] != second_state["network"]
    assert find_remains(first.names) == []
    assert second.run_on_host("left", "hostname").stdout == "left\n"
