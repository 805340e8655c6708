# SPDX-License-Identifier: Apache-2.0
"""The lab tool with real hosts. Needs root, systemd-nspawn and the image."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from tests.lab.leftovers import traces

pytestmark = pytest.mark.skipif(
    "CI" not in os.environ and (os.geteuid() != 0 or shutil.which("systemd-nspawn") is None),
    reason="needs root and systemd-nspawn",
)
EAT = "python3 -c 'b = bytearray({mb} * 2**20); print(len(b))'"
BURN = """python3 -c '
import os, time
for _ in range(2): pid = os.fork()
end = time.monotonic() + 2
while time.monotonic() < end: pass
if pid: os.wait(); print(sum(os.times()[:4]))
'"""


def test_a_wrong_topology_changes_nothing_and_exits_1(lab):
    lab.topology.write_text("{}")

    done = lab.run("up", "--topology", str(lab.topology), check=False)

    assert done.returncode == 1
    assert "topology has no hosts" in done.stderr
    assert traces(lab.names) == []


def test_down_without_a_lab_succeeds_without_output(lab):
    done = lab.run("down")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_up_starts_hosts_with_different_identities(lab):
    lab.up()

    for host in ("left", "right"):
        done = lab.on(
            host, "hostname; systemctl is-system-running --wait; stat -c %a /dev/fuse /dev/net/tun"
        )
        assert done.stdout.split() == [host, "running", "666", "666"], done.stderr
    left, right = (lab.on(host, "cat /etc/machine-id /etc/ssh/*.pub") for host in ("left", "right"))
    assert left.stdout != right.stdout


def test_a_second_up_changes_nothing(lab):
    lab.up()
    before = json.loads(lab.run("status", "--json").stdout)
    start_time = "cat /proc/sys/kernel/random/boot_id /proc/1/stat"
    boots = lab.on("left", start_time).stdout

    lab.up()

    after = json.loads(lab.run("status", "--json").stdout)
    assert before["hosts"].keys() == after["hosts"].keys()
    assert lab.on("left", start_time).stdout.split()[23] == boots.split()[23]


def test_up_with_other_hosts_is_refused(lab):
    lab.up()

    done = lab.run("up", "--topology", str(lab.topology), "--hosts", "left", check=False)

    assert done.returncode == 1
    assert "is up from another topology" in done.stderr


def test_the_kernel_ends_a_process_that_exceeds_the_memory_limit(lab):
    lab.up()

    assert lab.on("left", EAT.format(mb=100)).stdout.strip() == str(100 * 2**20)
    assert lab.on("left", EAT.format(mb=300)).returncode != 0
    assert lab.on("left", "systemctl is-system-running --wait").stdout.strip() == "running"


def test_cpu_time_is_limited(lab):
    lab.up()

    used = float(lab.on("left", BURN).stdout.split()[0])

    assert used < 2 * 0.5 * 1.5


def test_a_compute_host_can_limit_its_own_jobs(lab):
    lab.up()
    line = (
        "set -e; mkdir /cgv1/memory/job; echo 20M > /cgv1/memory/job/memory.limit_in_bytes;"
        " echo $$ > /cgv1/memory/job/cgroup.procs; " + EAT.format(mb=60)
    )

    assert lab.on("left", line).returncode != 0
    assert lab.on("right", "ls /cgv1").returncode != 0


def test_a_killed_host_stops_and_starts_again_with_its_disk(lab):
    lab.up()
    lab.on("left", "touch /srv/kept; sync")

    lab.run("kill", "left")

    states = json.loads(lab.run("status", "--json").stdout)["hosts"]
    assert (states["left"]["running"], states["right"]["running"]) == (False, True)

    lab.run("start", "left")

    assert lab.on("left", "ls /srv").stdout.split() == ["kept"]
    assert lab.on("left", EAT.format(mb=300)).returncode != 0


def test_a_host_is_added_to_a_running_lab_and_removed_again(lab):
    lab.up()

    lab.run("add", "third", "--like", "left")

    states = json.loads(lab.run("status", "--json").stdout)["hosts"]
    assert (states["third"]["running"], states["third"]["groups"]) == (True, ["one"])
    assert lab.on("third", "hostname; ls /cgv1").stdout.split()[:2] == ["third", "cpu"]
    assert "third" in lab.run("add", "third", "--like", "left", check=False).stderr
    assert lab.up().stdout.endswith("is up: left right third\n")

    lab.run("remove", "third")

    assert [trace for trace in traces(lab.names) if "third" in trace] == []
    assert lab.run("exec", "third", "--", "true", check=False).returncode == 1


def test_exec_returns_the_exit_code_and_passes_the_arguments(lab):
    lab.up()

    assert lab.on("right", "exit 7").returncode == 7
    assert lab.run("exec", "right", "--", "echo", "a  b", "$HOME").stdout == "a  b $HOME\n"


def test_down_removes_everything_and_a_second_down_prints_nothing(lab):
    lab.up()
    assert traces(lab.names)

    lab.run("down")

    assert traces(lab.names) == []
    assert lab.run("down").stdout == ""


def test_down_after_a_killed_up_removes_everything(lab):
    """The test kills `up` at eight times, which are spread over its whole duration."""
    start_s = time.monotonic()
    lab.up()
    duration_s = time.monotonic() - start_s
    lab.run("down")
    rng = random.Random(2)

    for part in range(8):
        run = lab.start_up()
        time.sleep(duration_s * (part + rng.random()) / 8)
        run.send_signal(signal.SIGKILL)
        run.wait()
        lab.run("down")

        assert traces(lab.names) == [], f"killed in part {part} of {duration_s:.1f} s"


def test_down_and_up_are_complete_after_a_killed_down(lab):
    rng = random.Random(3)

    for part in range(4):
        lab.up()
        run = subprocess.Popen(lab.command("down"), stdout=subprocess.DEVNULL)
        time.sleep(0.8 * (part + rng.random()) / 4)
        run.send_signal(signal.SIGKILL)
        run.wait()
        if part % 2:
            lab.up()
            assert lab.on("left", "hostname").stdout == "left\n"
        lab.run("down")

        assert traces(lab.names) == [], f"killed in part {part}"


def test_up_after_a_reboot_creates_the_hosts_again(lab):
    """A reboot removes the kernel's objects and leaves the files."""
    lab.up()
    state = (lab.names.state / "state.json").read_text()
    lab.run("down")
    lab.names.state.mkdir(parents=True)
    (lab.names.state / "state.json").write_text(state)

    lab.up()

    assert lab.on("left", "hostname").stdout == "left\n"


def test_up_after_a_killed_up_is_complete(lab):
    run = lab.start_up()
    while not lab.names.run.exists():
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()

    lab.up()

    assert lab.on("right", "hostname").stdout == "right\n"


def test_down_ends_a_running_up_and_marked_programs_only(lab):
    unrelated = subprocess.Popen(["sleep", "60"])
    marked = subprocess.Popen(["sleep", "60"], env=os.environ | {"GRIDSTEAD_LAB": lab.names.prefix})
    run = lab.start_up()
    while not lab.names.run.exists():
        time.sleep(0.01)

    lab.run("down")

    assert run.wait(5) == -signal.SIGKILL
    assert marked.wait(5) == -signal.SIGKILL
    assert unrelated.poll() is None
    assert traces(lab.names) == []
    unrelated.kill()
    unrelated.wait()


def test_a_lab_with_the_same_prefix_is_not_changed(lab):
    lab.names.run.mkdir(parents=True)
    lab.names.owner.write_text("lab other of /somewhere")

    for command in ("up", "down"):
        done = lab.run(command, check=False)
        assert done.returncode == 1
        assert "belongs to lab other of /somewhere" in done.stderr

    lab.names.owner.unlink()


def test_down_ends_persistent_ssh_connections(lab):
    lab.up()
    lab.names.sockets.mkdir()
    keep = (
        "-o",
        "ControlMaster=yes",
        "-o",
        "ControlPersist=60",
        "-o",
        f"ControlPath={lab.names.sockets}/kept",
    )
    subprocess.run(
        ["ssh", "-F", str(lab.names.state / "ssh_config"), *keep, "left", "true"], check=True
    )
    assert [trace for trace in traces(lab.names) if "ssh: " in trace]

    lab.run("down")

    assert traces(lab.names) == []


def test_down_removes_only_one_of_two_labs(make_lab):
    first, second = make_lab(f"test{os.getpid()}a"), make_lab(f"test{os.getpid()}b")
    first.up()
    second.up()
    networks = {
        json.loads(lab.run("status", "--json").stdout)["network"] for lab in (first, second)
    }

    first.run("down")

    assert len(networks) == 2
    assert traces(first.names) == []
    assert second.on("left", "hostname").stdout == "left\n"
