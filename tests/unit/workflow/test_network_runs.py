# SPDX-License-Identifier: Apache-2.0
"""Networks of steps in real namespaces, with stand-ins for the programs that connect them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.networks import KEY, NETWORKS, OTHER, TUNNEL, calls, end, step, tunnels
from tests.unit.workflow.node import wait_for, workflow
from tests.unit.workflow.runtimes import APPTAINER
from tests.unit.workflow.runtimes import install as install_runtime

from gridstead.workflow.render import render, secrets_of

KINDS = ["slirp4netns", "pasta"]


def interfaces_in(output):
    return {line.split(":")[0].strip() for line in output.splitlines() if ":" in line}


@pytest.fixture
def connected(node):
    """A node that can create networks. Checks that all its processes have ended."""
    networks.install(node)
    yield node
    for process in networks.helpers(node):
        wait_for(lambda process=process: not Path(f"/proc/{process}").exists())
    assert node.left == []


class TestNamespaces:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_step_has_its_own_network_and_user(self, connected, kind):
        code, output = connected.run(
            workflow(step("id -u; id -g; cat /proc/net/dev", network=kind), "cat /proc/net/dev")
        )

        own, *_ = output.split("Inter-", 2)
        assert code == 0
        assert own.split() == [str(os.getuid()), str(os.getgid())]
        assert interfaces_in(output.split("Inter-")[1]) >= {"lo", "net0"}
        assert "net0" not in output.split("Inter-")[2]

    def test_a_step_cannot_change_its_network(self, connected):
        code, output = connected.run(
            workflow(step("ip link delete net0 || echo refused", mapUid=0, mapGid=0))
        )

        assert (code, output.splitlines()[-1]) == (0, "refused")

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_exit_code_the_words_and_the_directory_are_kept(self, connected, kind):
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
    def test_a_step_can_map_to_another_user(self, connected, ids, expected):
        result = connected.run(workflow(step('echo "$(id -u) $(id -g)"', **ids)))

        assert result == (0, f"{expected}\n")

    def test_only_outgoing_connections_are_possible(self, connected):
        connected.run(workflow(step("true"), step("true", network="pasta")))

        (slirp,), (pasta,) = calls(connected, "slirp4netns"), calls(connected, "pasta")
        options = ("--configure", "--disable-host-loopback", "--mtu=65520")
        assert {*options, "--cidr=169.254.254.0/24"} <= set(slirp)
        for option in ("--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"):
            assert pasta[pasta.index(option) + 1] == "none"

    def test_every_name_server_is_used(self, connected):
        """The reference implementation uses only the last."""
        before = Path("/etc/resolv.conf").read_text()

        code, output = connected.run(
            workflow(step("cat /etc/resolv.conf", dns=["9.9.9.9", "1.1.1.1", "::1"]))
        )

        assert (code, output) == (0, "nameserver 9.9.9.9\nnameserver 1.1.1.1\nnameserver ::1\n")
        assert Path("/etc/resolv.conf").read_text() == before

    def test_each_task_has_its_own_network(self, connected):
        code, _ = connected.run(workflow(step("true", resources={"tasks": 2})))

        assert code == 0
        assert len(calls(connected, "slirp4netns")) == 2

    def test_a_container_runs_in_the_network(self, connected):
        install_runtime(connected, "apptainer", APPTAINER)

        code, output = connected.run(
            workflow(step("cat /proc/net/dev", container={"image": "debian:12"}))
        )

        assert code == 0
        assert "net0" in output

    def test_a_network_that_cannot_be_created_fails_the_step(self, connected):
        connected.add("slirp4netns", "#!/bin/sh\necho 'no such device' >&2\nexit 1\n")

        code, output = connected.run(workflow(step("echo never")))

        assert code == 71
        assert "slirp4netns could not create a network:\nno such device\n" in output

    def test_a_missing_program_fails_the_step(self, connected):
        (connected.bin / "pasta").unlink()

        assert connected.run(workflow(step("echo never", network="pasta"))) == (
            127,
            "gridstead: this node has no pasta\n",
        )

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_of_slurm_reaches_the_step_and_no_process_remains(self, connected, number):
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
    def test_only_the_tunnel_has_its_configuration(self, connected):
        job = workflow(step("cat /proc/net/dev; env; ls /tmp", {"wireguard": TUNNEL}), "env")

        code, output = connected.run(job)

        assert code == 0
        assert "wg0" in interfaces_in(output)
        expected = (
            f"[Interface]\nPrivateKey = {KEY}\nAddress = 10.8.0.2/24, fd00::2/64\n"
            f"[Peer]\nPublicKey = {OTHER}\nPresharedKey = {KEY}\nAllowedIPs = 10.8.0.0/24\n"
            "Endpoint = vpn.example:51820\nPersistentKeepalive = 25\n"
        )
        assert tunnels(connected) == [("wg0", expected)]
        assert (connected.home / "mode").read_text() == "600\n"
        assert KEY not in output
        assert KEY not in render(job)
        assert KEY not in repr(job)
        assert not any(KEY in word for call in connected.calls for word in call)
        assert list(secrets_of(job)) == ["GRIDSTEAD_NETWORK_1"]

    def test_several_interfaces_have_their_own_settings(self, connected):
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
        assert sorted(calls(connected, "bore")) == [
            ["10.0.0.1:22", "90", ""],
            ["bore.example:2200", "8080", "-tok'en$(x)"],
        ]
        assert "tok'en" not in render(job)

    def test_each_task_receives_the_key(self, connected):
        """srun copies its input to all tasks."""
        srun = (connected.bin / "srun").read_text()
        srun = srun.replace('"$@" 2>&3 3>&- ||', '"$@" 2>&3 3>&- <<<"$input" ||')
        connected.add("srun", srun.replace("exec 3>&2", "input=$(cat); exec 3>&2"))
        job = workflow(step("true", {"wireguard": TUNNEL}, resources={"tasks": 2}))

        assert connected.run(job)[0] == 0
        assert [KEY in text for _, text in tunnels(connected)] == [True, True]

    def test_a_tunnel_that_cannot_be_opened_fails_the_step(self, connected):
        connected.add("wg-quick", "#!/bin/sh\necho 'bad key' >&2\nexit 3\n")

        code, output = connected.run(workflow(step("echo never", {"wireguard": TUNNEL})))

        assert (code, output) == (3, "gridstead: could not open the tunnel wg0:\nbad key\n")

    def test_a_tunnel_has_no_effect_on_the_host_network(self, connected):
        assert connected.run(
            workflow(step("echo hello", {"wireguard": TUNNEL}, network="host"))
        ) == (0, "hello\n")
        assert tunnels(connected) == []


class TestVirtualNetworks:
    def test_steps_are_connected_through_the_gateway(self, connected):
        job = workflow(
            step("cat /proc/net/dev", end("net 1", "10.9.0.3/24")),
            step("true", end("net 1", "10.9.0.2/24"), end("b", "10.10.0.9/16"), network="pasta"),
            virtualNetworks=NETWORKS,
        )

        code, output = connected.run(job)

        assert code == 0
        assert "wg0" in interfaces_in(output)
        gateway, other, *ends = [text for _, text in tunnels(connected)]
        assert "Address = 10.9.0.1/24\n" in gateway
        assert gateway.count("[Peer]") == 2
        first, second = "AllowedIPs = 10.9.0.2/32\n", "AllowedIPs = 10.9.0.3/32\n"
        assert gateway.index(first) < gateway.index(second)
        assert "Address = 10.10.0.1/16\n" in other
        port = gateway.split("ListenPort = ")[1].split()[0]
        ports = [call[call.index("--udp-ports") + 1] for call in calls(connected, "pasta")]
        assert port in ports
        addresses = [end.split("Address = ")[1].split()[0] for end in ends]
        assert addresses == ["10.9.0.3/24", "10.9.0.2/24", "10.10.0.9/16"]
        endpoint = f"Endpoint = 192.0.2.1:{port}\n"
        assert f"{endpoint}AllowedIPs = 10.9.0.0/24\nPersistentKeepalive = 20\n" in ends[0]

    def test_the_address_of_the_gateway_comes_from_slurm(self, connected):
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

    def test_the_directory_and_the_gateways_are_removed_with_the_job(self, connected):
        """The reference implementation keeps the directory, and all gateways except the last."""
        job = workflow(step("exit 5", end("b", "10.10.0.9/16")), virtualNetworks=NETWORKS)

        assert connected.run(job)[0] == 5

    def test_a_cancelled_job_leaves_no_gateway(self, connected):
        job = workflow(
            step("touch started; sleep 20", end("b", "10.10.0.9/16")), virtualNetworks=NETWORKS
        )
        running = connected.start(job)
        wait_for(lambda: list(connected.root.glob("cache/shared/*/*/started")))

        os.killpg(running.pid, signal.SIGTERM)
        running.communicate(timeout=15)

        assert running.returncode == 143

    def test_a_job_that_ends_before_its_networks_are_open_leaves_no_process(self, connected):
        connected.add("curl", "#!/bin/sh\nexit 22\n")
        place = {"http": {"url": "http://in.example/x"}}

        code, output = connected.run(
            workflow("echo never", virtualNetworks=[NETWORKS[0]], input=place)
        )

        assert (code, output) == (22, "gridstead: fetching the input\n")

    def test_a_virtual_network_that_cannot_be_opened_fails_the_job(self, connected):
        connected.add("wg-quick", "#!/bin/sh\nexit 3\n")

        code, output = connected.run(workflow("echo never", virtualNetworks=[NETWORKS[0]]))

        assert code == 71
        assert "could not open virtual network 1" in output
        assert "never" not in output
