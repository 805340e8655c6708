# SPDX-License-Identifier: Apache-2.0
"""Networks of steps, in real namespaces, with stand-ins for what connects them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.networks import KEY, NETWORKS, OTHER, TUNNEL, end, step, told, tunnels
from tests.unit.workflow.node import wait_for, workflow
from tests.unit.workflow.runtimes import APPTAINER
from tests.unit.workflow.runtimes import install as install_runtime

from gridstead.workflow.render import render, secrets_of

KINDS = ["slirp4netns", "pasta"]


def interfaces_in(output):
    return {line.split(":")[0].strip() for line in output.splitlines() if ":" in line}


@pytest.fixture
def connected(node):
    """A node that can make networks; what it starts has to be gone at the end."""
    networks.install(node)
    yield node
    for process in networks.helpers(node):
        wait_for(lambda process=process: not Path(f"/proc/{process}").exists())
    assert node.left == []


class TestNamespaces:
    @pytest.mark.parametrize("kind", KINDS)
    def test_step_has_a_network_of_its_own_and_its_own_user(self, connected, kind):
        code, output = connected.run(
            workflow(step("id -u; id -g; cat /proc/net/dev", network=kind), "cat /proc/net/dev")
        )

        own, *_ = output.split("Inter-", 2)
        assert code == 0
        assert own.split() == [str(os.getuid()), str(os.getgid())]
        assert interfaces_in(output.split("Inter-")[1]) >= {"lo", "net0"}
        assert "net0" not in output.split("Inter-")[2]

    def test_step_cannot_change_its_network(self, connected):
        code, output = connected.run(
            workflow(step("ip link delete net0 || echo refused", mapUid=0, mapGid=0))
        )

        assert (code, output.splitlines()[-1]) == (0, "refused")

    @pytest.mark.parametrize("kind", KINDS)
    def test_code_words_and_directory_come_through(self, connected, kind):
        text = 'printf "<%s>" "$A" "it\'s"; pwd; exit 7'
        job = workflow(
            step(
                text,
                network=kind,
                workDir=f"{connected.root}/x y",
                env=[{"key": "A", "value": "$HOME'"}],
            )
        )

        assert connected.run(job) == (7, f"<$HOME'><it's>{connected.root}/x y\n")

    @pytest.mark.parametrize(
        ("ids", "expected"), [({"mapUid": 5, "mapGid": 6}, "5 6"), ({"mapUid": 0}, "0 0")]
    )
    def test_user_may_seem_to_be_another(self, connected, ids, expected):
        assert connected.run(workflow(step('echo "$(id -u) $(id -g)"', **ids))) == (
            0,
            f"{expected}\n",
        )

    def test_way_out_and_none_in(self, connected):
        connected.run(workflow(step("true"), step("true", network="pasta")))

        (slirp,), (pasta,) = told(connected, "slirp4netns"), told(connected, "pasta")
        assert {
            "--configure",
            "--disable-host-loopback",
            "--mtu=65520",
            "--cidr=169.254.254.0/24",
        } <= set(slirp)
        for option in ("--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"):
            assert pasta[pasta.index(option) + 1] == "none"

    def test_every_name_server_is_asked(self, connected):
        """The reference keeps only the last."""
        before = Path("/etc/resolv.conf").read_text()

        code, output = connected.run(
            workflow(step("cat /etc/resolv.conf", dns=["9.9.9.9", "1.1.1.1", "::1"]))
        )

        assert (code, output) == (0, "nameserver 9.9.9.9\nnameserver 1.1.1.1\nnameserver ::1\n")
        assert Path("/etc/resolv.conf").read_text() == before

    def test_every_task_has_its_own(self, connected):
        code, _ = connected.run(workflow(step("true", resources={"tasks": 2})))

        assert code == 0
        assert len(told(connected, "slirp4netns")) == 2

    def test_container_runs_in_it(self, connected):
        install_runtime(connected, "apptainer", APPTAINER)

        code, output = connected.run(
            workflow(step("cat /proc/net/dev", container={"image": "debian:12"}))
        )

        assert code == 0
        assert "net0" in output

    def test_network_that_cannot_be_made_is_told(self, connected):
        connected.add("slirp4netns", "#!/bin/sh\necho 'no such device' >&2\nexit 1\n")

        code, output = connected.run(workflow(step("echo never")))

        assert code == 71
        assert "slirp4netns could not make a network:\nno such device\n" in output

    def test_node_without_the_program_is_told(self, connected):
        (connected.bin / "pasta").unlink()

        assert connected.run(workflow(step("echo never", network="pasta"))) == (
            127,
            "gridstead: this node has no pasta\n",
        )

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_end_by_slurm_reaches_the_step_and_leaves_nothing(self, connected, number):
        text = f"trap 'echo last; exit 9' {number}; touch started; while true; do sleep 0.05; done"
        running = connected.start(
            workflow(
                step(text, {"bore": {"boreAddress": "b:1", "targetPort": 80}}, shell="/bin/bash")
            )
        )
        wait_for(lambda: list(connected.root.glob("cache/shared/*/*/started")))

        os.killpg(running.pid, number)
        output, _ = running.communicate(timeout=15)

        assert b"last" in output
        assert running.returncode in (9, 128 + number)


class TestTunnels:
    def test_tunnel_has_its_configuration_and_nobody_else(self, connected):
        job = workflow(step("cat /proc/net/dev; env; ls /tmp", {"wireguard": TUNNEL}), "env")

        code, output = connected.run(job)

        assert code == 0
        assert "wg0" in interfaces_in(output)
        expected = (
            f"[Interface]\nPrivateKey = {KEY}\nAddress = 10.8.0.2/24, fd00::2/64\n[Peer]\nPublicKey = {OTHER}\n"
            f"PresharedKey = {KEY}\nAllowedIPs = 10.8.0.0/24\nEndpoint = vpn.example:51820\n"
            "PersistentKeepalive = 25\n"
        )
        assert tunnels(connected) == [("wg0", expected)]
        assert (connected.home / "mode").read_text() == "600\n"
        assert KEY not in output
        assert KEY not in render(job)
        assert KEY not in repr(job)
        assert not any(KEY in word for call in connected.calls for word in call)
        assert list(secrets_of(job)) == ["GRIDSTEAD_NETWORK_1"]

    def test_several_interfaces_get_each_its_own(self, connected):
        second = {"privateKey": OTHER}
        bores = [
            {
                "bore": {
                    "boreAddress": "bore.example:2200",
                    "targetPort": 8080,
                    "secret": "-tok'en$(x)",
                }
            },
            {"bore": {"address": "10.0.0.1", "port": 22, "targetPort": 90}},
        ]
        job = workflow(
            step("sleep 0.3", {"wireguard": TUNNEL}, bores[0], {"wireguard": second}, bores[1])
        )

        code, output = connected.run(job)

        assert code == 0
        assert output.count("https://route.example") == 2
        assert [name for name, _ in tunnels(connected)] == ["wg0", "wg1"]
        assert tunnels(connected)[1][1] == f"[Interface]\nPrivateKey = {OTHER}\n"
        assert sorted(told(connected, "bore")) == sorted([
            ["bore.example:2200", "8080", "-tok'en$(x)"], ["10.0.0.1:22", "90", ""],
        ])  # fmt: skip
        assert "tok'en" not in render(job)

    def test_every_task_is_told_the_key(self, connected):
        connected.add("srun", (connected.bin / "srun").read_text().replace(
            '"$@" 2>&3 3>&- ||', '"$@" 2>&3 3>&- <<<"$input" ||'
        ).replace("exec 3>&2", "input=$(cat); exec 3>&2"))  # fmt: skip # srun gives its input to all

        assert (
            connected.run(workflow(step("true", {"wireguard": TUNNEL}, resources={"tasks": 2})))[0]
            == 0
        )
        assert [KEY in text for _, text in tunnels(connected)] == [True, True]

    def test_tunnel_that_cannot_be_opened_is_told(self, connected):
        connected.add("wg-quick", "#!/bin/sh\necho 'bad key' >&2\nexit 3\n")

        code, output = connected.run(workflow(step("echo never", {"wireguard": TUNNEL})))

        assert (code, output) == (3, "gridstead: could not open the tunnel wg0:\nbad key\n")

    def test_tunnel_on_the_hosts_network_does_nothing(self, connected):
        assert connected.run(
            workflow(step("echo hello", {"wireguard": TUNNEL}, network="host"))
        ) == (0, "hello\n")
        assert tunnels(connected) == []


class TestVirtualNetworks:
    def test_steps_reach_each_other_through_the_middle(self, connected):
        job = workflow(
            step("cat /proc/net/dev", end("net 1", "10.9.0.3/24")),
            step("true", end("net 1", "10.9.0.2/24"), end("b", "10.10.0.9/16"), network="pasta"),
            virtualNetworks=NETWORKS,
        )

        code, output = connected.run(job)

        assert code == 0
        assert "wg0" in interfaces_in(output)
        middle, other, *ends = [text for _, text in tunnels(connected)]
        assert "Address = 10.9.0.1/24\n" in middle
        assert middle.count("[Peer]") == 2
        assert middle.index("AllowedIPs = 10.9.0.2/32\n") < middle.index(
            "AllowedIPs = 10.9.0.3/32\n"
        )
        assert "Address = 10.10.0.1/16\n" in other
        port = middle.split("ListenPort = ")[1].split()[0]
        assert any(call[call.index("--udp-ports") + 1] == port for call in told(connected, "pasta"))
        assert [end.split("Address = ")[1].split()[0] for end in ends] == [
            "10.9.0.3/24",
            "10.9.0.2/24",
            "10.10.0.9/16",
        ]
        middle = f"Endpoint = 192.0.2.1:{port}\n"
        assert f"{middle}AllowedIPs = 10.9.0.0/24\nPersistentKeepalive = 20\n" in ends[0]

    def test_middle_is_where_slurm_says_on_a_node_without_a_way_out(self, connected):
        connected.add(
            "ip",
            '#!/bin/sh\n[ "$*" != \'-4 route get 192.0.2.1\' ] || exit 2\nexec /sbin/ip "$@"\n',
        )
        job = workflow(
            step("true", end("b", "10.10.0.9/16")),
            virtualNetworks=NETWORKS,
            env=[{"key": "NODE_IPADDR", "value": "fd00::1"}],
        )

        assert connected.run(job)[0] == 0
        assert "Endpoint = [fd00::1]:" in tunnels(connected)[-1][1]

    def test_directory_and_middle_go_with_the_job(self, connected):
        """The reference leaves the job's directory, and all middles but the last."""
        job = workflow(step("exit 5", end("b", "10.10.0.9/16")), virtualNetworks=NETWORKS)

        assert connected.run(job)[0] == 5

    def test_cancelled_job_leaves_no_middle(self, connected):
        job = workflow(
            step("touch started; sleep 20", end("b", "10.10.0.9/16")), virtualNetworks=NETWORKS
        )
        running = connected.start(job)
        wait_for(lambda: list(connected.root.glob("cache/shared/*/*/started")))

        os.killpg(running.pid, signal.SIGTERM)
        running.communicate(timeout=15)

        assert running.returncode == 143

    def test_job_that_ends_before_its_networks_are_open_leaves_nothing(self, connected):
        connected.add("curl", "#!/bin/sh\nexit 22\n")
        place = {"http": {"url": "http://in.example/x"}}

        code, output = connected.run(
            workflow("echo never", virtualNetworks=[NETWORKS[0]], input=place)
        )

        assert (code, output) == (22, "gridstead: fetching the input\n")

    def test_network_that_cannot_be_opened_ends_the_job(self, connected):
        connected.add("wg-quick", "#!/bin/sh\nexit 3\n")

        code, output = connected.run(workflow("echo never", virtualNetworks=[NETWORKS[0]]))

        assert code == 71
        assert "could not open virtual network 1" in output
        assert "never" not in output
