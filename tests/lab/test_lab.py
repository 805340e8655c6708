# SPDX-License-Identifier: Apache-2.0
"""The lab tool on real hosts: needs root, systemd-nspawn and the image."""

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


def test_down_without_a_lab_is_silent_success(lab):
    done = lab.run("down")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_up_gives_hosts_that_run_and_know_who_they_are(lab):
    lab.up()

    for host in ("left", "right"):
        done = lab.on(
            host, "hostname; systemctl is-system-running --wait; stat -c %a /dev/fuse /dev/net/tun"
        )
        assert done.stdout.split() == [host, "running", "666", "666"], done.stderr
    identities = {
        lab.on(host, "cat /etc/machine-id /etc/ssh/*.pub").stdout for host in ("left", "right")
    }
    assert len(identities) == 2


def test_a_second_up_does_nothing(lab):
    lab.up()
    before = json.loads(lab.run("status", "--json").stdout)
    boots = lab.on("left", "cat /proc/sys/kernel/random/boot_id /proc/1/stat").stdout

    lab.up()

    after = json.loads(lab.run("status", "--json").stdout)
    assert before["hosts"].keys() == after["hosts"].keys()
    assert (
        lab.on("left", "cat /proc/sys/kernel/random/boot_id /proc/1/stat").stdout.split()[23]
        == boots.split()[23]
    )


def test_an_up_with_other_hosts_is_refused(lab):
    lab.up()

    done = lab.run("up", "--topology", str(lab.topology), "--hosts", "left", check=False)

    assert done.returncode == 1
    assert "is up from another topology" in done.stderr


def test_memory_beyond_the_limit_is_refused_by_the_kernel(lab):
    lab.up()

    assert lab.on("left", EAT.format(mb=100)).stdout.strip() == str(100 * 2**20)
    assert lab.on("left", EAT.format(mb=300)).returncode != 0
    assert lab.on("left", "systemctl is-system-running --wait").stdout.strip() == "running"


def test_core_time_beyond_the_limit_is_not_given(lab):
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


def test_a_killed_host_falls_silent_and_comes_back_with_its_disk(lab):
    lab.up()
    lab.on("left", "touch /srv/kept; sync")

    lab.run("kill", "left")

    states = json.loads(lab.run("status", "--json").stdout)["hosts"]
    assert (states["left"]["running"], states["right"]["running"]) == (False, True)

    lab.run("start", "left")

    assert lab.on("left", "ls /srv").stdout.split() == ["kept"]
    assert lab.on("left", EAT.format(mb=300)).returncode != 0


def test_a_standing_lab_gets_another_host_and_loses_it_again(lab):
    lab.up()

    lab.run("add", "third", "--like", "left")

    states = json.loads(lab.run("status", "--json").stdout)["hosts"]
    assert (states["third"]["running"], states["third"]["groups"]) == (True, ["one"])
    assert lab.on("third", "hostname; ls /cgv1").stdout.split()[:2] == ["third", "cpu"]
    assert "third" in lab.run("add", "third", "--like", "left", check=False).stderr
    assert lab.up().stdout.endswith("is up: left right third\n")

    lab.run("remove", "third")

    assert [one for one in traces(lab.names) if "third" in one] == []
    assert lab.run("exec", "third", "--", "true", check=False).returncode == 1


def test_exec_hands_the_exit_code_and_the_words_through(lab):
    lab.up()

    assert lab.on("right", "exit 7").returncode == 7
    assert lab.run("exec", "right", "--", "echo", "a  b", "$HOME").stdout == "a  b $HOME\n"


def test_down_leaves_nothing_and_a_second_down_is_silent(lab):
    lab.up()
    assert traces(lab.names)

    lab.run("down")

    assert traces(lab.names) == []
    assert lab.run("down").stdout == ""


def test_down_after_a_kill_of_up_at_any_moment_leaves_nothing(lab):
    """The moments are spread over the time a whole `up` takes; the seed is printed by pytest on
    failure.
    """
    began = time.monotonic()
    lab.up()
    whole = time.monotonic() - began
    lab.run("down")
    chance = random.Random(2)

    for part in range(8):
        run = lab.start_up()
        time.sleep(whole * (part + chance.random()) / 8)
        run.send_signal(signal.SIGKILL)
        run.wait()
        lab.run("down")

        assert traces(lab.names) == [], f"killed in part {part} of {whole:.1f} s"


def test_down_and_up_after_a_kill_of_down_at_any_moment_are_complete(lab):
    chance = random.Random(3)

    for part in range(4):
        lab.up()
        run = subprocess.Popen(lab.command("down"), stdout=subprocess.DEVNULL)
        time.sleep(0.8 * (part + chance.random()) / 4)
        run.send_signal(signal.SIGKILL)
        run.wait()
        if part % 2:
            lab.up()
            assert lab.on("left", "hostname").stdout == "left\n"
        lab.run("down")

        assert traces(lab.names) == [], f"killed in part {part}"


def test_an_up_after_a_reboot_makes_the_hosts_anew(lab):
    """A reboot takes the kernel's objects and leaves the files."""
    lab.up()
    state = (lab.names.state / "state.json").read_text()
    lab.run("down")
    lab.names.state.mkdir(parents=True)
    (lab.names.state / "state.json").write_text(state)

    lab.up()

    assert lab.on("left", "hostname").stdout == "left\n"


def test_an_up_after_a_killed_up_is_complete(lab):
    run = lab.start_up()
    while not lab.names.run.exists():
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()

    lab.up()

    assert lab.on("right", "hostname").stdout == "right\n"


def test_down_ends_a_running_up_and_marked_programs_and_spares_others(lab):
    stranger = subprocess.Popen(["sleep", "60"])
    marked = subprocess.Popen(["sleep", "60"], env=os.environ | {"GRIDSTEAD_LAB": lab.names.prefix})
    run = lab.start_up()
    while not lab.names.run.exists():
        time.sleep(0.01)

    lab.run("down")

    assert run.wait(5) == -signal.SIGKILL
    assert marked.wait(5) == -signal.SIGKILL
    assert stranger.poll() is None
    assert traces(lab.names) == []
    stranger.kill()
    stranger.wait()


def test_a_lab_that_happens_to_have_our_prefix_is_left_alone(lab):
    lab.names.run.mkdir(parents=True)
    lab.names.owner.write_text("lab other of /somewhere")

    for command in ("up", "down"):
        done = lab.run(command, check=False)
        assert done.returncode == 1
        assert "belongs to lab other of /somewhere" in done.stderr

    lab.names.owner.unlink()


def test_down_ends_kept_ssh_connections(lab):
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


def test_two_labs_live_side_by_side_and_one_goes_alone(make_lab):
    one, two = make_lab(f"test{os.getpid()}a"), make_lab(f"test{os.getpid()}b")
    one.up()
    two.up()
    networks = {json.loads(lab.run("status", "--json").stdout)["network"] for lab in (one, two)}

    one.run("down")

    assert len(networks) == 2
    assert traces(one.names) == []
    assert two.on("left", "hostname").stdout == "left\n"
