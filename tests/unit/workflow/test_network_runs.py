# SPDX-License-Identifier: Apache-2.0
"""Networks of steps, in real network namespaces that simulated programs connect."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.unit.workflow import networks
from tests.unit.workflow.networks import (
    KEY,
    NETWORKS,
    OTHER_KEY,
    TUNNEL,
    calls,
    step,
    tunnels,
    vnet_interface,
)
from tests.unit.workflow.node import wait_for, workflow
from tests.unit.workflow.runtimes import APPTAINER
from tests.unit.workflow.runtimes import calls as runtime_calls
from tests.unit.workflow.runtimes import install as install_runtime

from gridstead.workflow.render import render, secrets_of

NETWORKS_WITH_NAMESPACE = ["slirp4netns", "pasta"]
# Adds an address and a tunnel, and opens a port below 1024 and the socket of ping.
CHANGE_NETWORK = """\
set -e
ip address add 10.1.0.1/24 dev net0
ip link set lo up
ip link add own type veth peer name other-end
python3 -c '
import socket
socket.create_server(("127.0.0.1", 80)), print("port 80")
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), print("raw socket")'
echo "$(id -u) $(id -g)"
"""


def interfaces_in(output):
    """Return the names of the interfaces in the text of /proc/net/dev."""
    return {line.split(":")[0].strip() for line in output.splitlines() if ":" in line}


@pytest.fixture
def network_node(node):
    """Yield a node with network programs. Check that no process and no file of a test remains."""
    networks.install(node)
    yield node
    for pid in networks.helper_pids(node):
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists())
    assert node.leftover_files == []


class TestNamespaces:
    @pytest.mark.parametrize("network", NETWORKS_WITH_NAMESPACE)
    def test_a_step_has_its_own_network_and_keeps_its_user(self, network_node, network):
        first = step("id -u; id -g; cat /proc/net/dev", network=network)

        code, output = network_node.run(workflow(first, "cat /proc/net/dev"))

        assert code == 0
        # The first line of /proc/net/dev starts with "Inter-".
        ids, devices_of_first, devices_of_second = output.split("Inter-")
        assert ids.split() == [str(os.getuid()), str(os.getgid())]
        assert interfaces_in(devices_of_first) >= {"lo", "net0"}
        assert "net0" not in devices_of_second

    @pytest.mark.parametrize("ids", [{}, {"mapUid": 5}, {"mapGid": 0}])
    def test_a_step_cannot_change_its_network(self, network_node, ids):
        code, output = network_node.run(
            workflow(step("ip link delete net0 || echo refused", **ids))
        )

        assert code == 0
        assert output.splitlines()[-1] == "refused"

    @pytest.mark.parametrize("network", NETWORKS_WITH_NAMESPACE)
    @pytest.mark.parametrize("ids", [{"mapUid": 0}, {"mapUid": 0, "mapGid": 6}])
    def test_a_step_that_maps_to_user_0_is_root_of_its_network(self, network_node, network, ids):
        code, output = network_node.run(
            workflow(step(CHANGE_NETWORK, network=network, shell="/bin/bash", **ids))
        )

        assert (code, output) == (0, f"port 80\nraw socket\n0 {ids.get('mapGid', os.getgid())}\n")

    def test_a_container_that_maps_to_user_0_is_root_of_its_network(self, network_node):
        install_runtime(network_node, "apptainer", APPTAINER)

        code, output = network_node.run(
            workflow(step(CHANGE_NETWORK, container={"image": "debian:12"}, mapUid=0))
        )

        assert (code, output.splitlines()[-3:]) == (0, ["port 80", "raw socket", "0 0"])
        (call,) = runtime_calls(network_node, "apptainer", "exec")
        assert "--fakeroot" not in call["words"]

    @pytest.mark.parametrize("network", NETWORKS_WITH_NAMESPACE)
    def test_a_step_keeps_its_exit_code_environment_and_directory(self, network_node, network):
        text = 'printf "<%s>" "$A" "it\'s"; pwd; exit 7'
        job = workflow(
            step(
                text,
                network=network,
                workDir=f"{network_node.root}/x y",
                env=[{"key": "A", "value": "$HOME'"}],
            )
        )

        assert network_node.run(job) == (7, f"<$HOME'><it's>{network_node.root}/x y\n")

    @pytest.mark.parametrize(
        ("ids", "expected"), [({"mapUid": 5, "mapGid": 6}, "5 6"), ({"mapUid": 0}, "0 0")]
    )
    def test_a_step_can_map_to_another_user(self, network_node, ids, expected):
        result = network_node.run(workflow(step('echo "$(id -u) $(id -g)"', **ids)))

        assert result == (0, f"{expected}\n")

    def test_the_network_programs_are_told_to_refuse_incoming_connections(self, network_node):
        network_node.run(workflow(step("true"), step("true", network="pasta")))

        (slirp,), (pasta,) = calls(network_node, "slirp4netns"), calls(network_node, "pasta")
        options = ("--configure", "--disable-host-loopback", "--mtu=65520")
        assert {*options, "--cidr=169.254.254.0/24"} <= set(slirp)
        for option in ("--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"):
            assert pasta[pasta.index(option) + 1] == "none"

    def test_every_name_server_is_used(self, network_node):
        """In contrast, DeepSquare's implementation ignores all name servers but the last."""
        before = Path("/etc/resolv.conf").read_text()

        code, output = network_node.run(
            workflow(step("cat /etc/resolv.conf", dns=["9.9.9.9", "1.1.1.1", "::1"]))
        )

        assert (code, output) == (0, "nameserver 9.9.9.9\nnameserver 1.1.1.1\nnameserver ::1\n")
        assert Path("/etc/resolv.conf").read_text() == before

    def test_each_task_has_its_own_network(self, network_node):
        code, _ = network_node.run(workflow(step("true", resources={"tasks": 2})))

        assert code == 0
        assert len(calls(network_node, "slirp4netns")) == 2

    def test_a_container_runs_in_the_network(self, network_node):
        install_runtime(network_node, "apptainer", APPTAINER)

        code, output = network_node.run(
            workflow(step("cat /proc/net/dev", container={"image": "debian:12"}))
        )

        assert code == 0
        assert "net0" in output

    def test_a_network_that_cannot_be_created_fails_the_step(self, network_node):
        network_node.add_program("slirp4netns", "#!/bin/sh\necho 'no such device' >&2\nexit 1\n")

        code, output = network_node.run(workflow(step("echo never")))

        assert code == 71
        assert "slirp4netns could not create a network:\nno such device\n" in output

    def test_a_missing_program_fails_the_step(self, network_node):
        (network_node.bin / "pasta").unlink()

        assert network_node.run(workflow(step("echo never", network="pasta"))) == (
            127,
            "gridstead: this node has no pasta\n",
        )

    @pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_of_slurm_reaches_the_step(self, network_node, signal_number):
        text = (
            f"trap 'echo last; exit 9' {signal_number}; touch started;"
            " while true; do sleep 0.05; done"
        )
        running_job = network_node.start(
            workflow(
                step(text, {"bore": {"boreAddress": "b:1", "targetPort": 80}}, shell="/bin/bash")
            )
        )
        wait_for(lambda: list(network_node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal_number)
        output, _ = running_job.communicate(timeout=15)

        assert b"last" in output
        assert running_job.returncode in (9, 128 + signal_number)


class TestTunnels:
    def test_wg_quick_receives_the_configuration_of_a_tunnel_and_the_step_does_not(
        self, network_node
    ):
        job = workflow(step("cat /proc/net/dev; env; ls /tmp", {"wireguard": TUNNEL}), "env")

        code, output = network_node.run(job)

        assert code == 0
        assert "wg0" in interfaces_in(output)
        expected = (
            f"[Interface]\nPrivateKey = {KEY}\nAddress = 10.8.0.2/24, fd00::2/64\n"
            f"[Peer]\nPublicKey = {OTHER_KEY}\nPresharedKey = {KEY}\nAllowedIPs = 10.8.0.0/24\n"
            "Endpoint = vpn.example:51820\nPersistentKeepalive = 25\n"
        )
        assert tunnels(network_node) == [("wg0", expected)]
        assert (network_node.home / "mode").read_text() == "600\n"
        assert KEY not in output
        assert KEY not in render(job)
        assert KEY not in repr(job)
        for call in network_node.srun_calls:
            assert KEY not in " ".join(call)
        assert list(secrets_of(job)) == ["GRIDSTEAD_NETWORK_1"]

    def test_several_interfaces_have_their_own_settings(self, network_node):
        second = {"privateKey": OTHER_KEY}
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

        code, output = network_node.run(job)

        assert code == 0
        assert output.count("https://route.example") == 2
        first_tunnel, second_tunnel = tunnels(network_node)
        assert first_tunnel[0] == "wg0"
        # The number of an interface is its place in the list, which starts with 0.
        assert second_tunnel == ("wg2", f"[Interface]\nPrivateKey = {OTHER_KEY}\n")
        assert sorted(calls(network_node, "bore")) == [
            ["10.0.0.1:22", "90", ""],
            ["bore.example:2200", "8080", "-tok'en$(x)"],
        ]
        assert "tok'en" not in render(job)

    def test_each_task_receives_the_key_of_the_tunnel(self, network_node):
        """The key is in the input of srun, which copies this input to all tasks."""
        # This simulated srun does the same: it reads its input once and passes a copy to each task.
        srun = (network_node.bin / "srun").read_text()
        srun = srun.replace('"$@" 2>&3 3>&- ||', '"$@" 2>&3 3>&- <<<"$input" ||')
        network_node.add_program("srun", srun.replace("exec 3>&2", "input=$(cat); exec 3>&2"))
        job = workflow(step("true", {"wireguard": TUNNEL}, resources={"tasks": 2}))

        assert network_node.run(job)[0] == 0
        (_, first_configuration), (_, second_configuration) = tunnels(network_node)
        assert KEY in first_configuration
        assert KEY in second_configuration

    def test_a_tunnel_that_cannot_be_opened_fails_the_step(self, network_node):
        network_node.add_program("wg-quick", "#!/bin/sh\necho 'bad key' >&2\nexit 3\n")

        code, output = network_node.run(workflow(step("echo never", {"wireguard": TUNNEL})))

        assert (code, output) == (3, "gridstead: could not open the tunnel wg0:\nbad key\n")

    def test_a_tunnel_has_no_effect_on_the_host_network(self, network_node):
        assert network_node.run(
            workflow(step("echo hello", {"wireguard": TUNNEL}, network="host"))
        ) == (0, "hello\n")
        assert tunnels(network_node) == []


class TestVirtualNetworks:
    def test_steps_are_connected_through_the_gateway(self, network_node):
        job = workflow(
            step("cat /proc/net/dev", vnet_interface("net 1", "10.9.0.3/24")),
            step(
                "true",
                vnet_interface("net 1", "10.9.0.2/24"),
                vnet_interface("b", "10.10.0.9/16"),
                network="pasta",
            ),
            virtualNetworks=NETWORKS,
        )

        code, output = network_node.run(job)

        assert code == 0
        assert "vnet0" in interfaces_in(output)
        assert [name for name, _ in tunnels(network_node)][-3:] == ["vnet0", "vnet0", "vnet1"]
        gateway, other_gateway, *step_tunnels = [
            configuration for _, configuration in tunnels(network_node)
        ]
        assert "Address = 10.9.0.1/24\n" in gateway
        assert gateway.count("[Peer]") == 2
        # The gateway lists the addresses of the steps in alphabetical order.
        first_peer, second_peer = "AllowedIPs = 10.9.0.2/32\n", "AllowedIPs = 10.9.0.3/32\n"
        assert gateway.index(first_peer) < gateway.index(second_peer)
        assert "Address = 10.10.0.1/16\n" in other_gateway
        port = gateway.split("ListenPort = ")[1].split()[0]
        ports = [call[call.index("--udp-ports") + 1] for call in calls(network_node, "pasta")]
        assert port in ports
        addresses = [tunnel.split("Address = ")[1].split()[0] for tunnel in step_tunnels]
        assert addresses == ["10.9.0.3/24", "10.9.0.2/24", "10.10.0.9/16"]
        # The simulated srun reports 192.0.2.1 as the address of the first node.
        endpoint = f"Endpoint = 192.0.2.1:{port}\n"
        first_tunnel = step_tunnels[0]
        assert f"{endpoint}AllowedIPs = 10.9.0.0/24\nPersistentKeepalive = 20\n" in first_tunnel

    def test_the_address_of_the_gateway_comes_from_slurm(self, network_node):
        # The script must read the address from a variable of Slurm. This simulated ``ip`` fails if
        # the script asks for the route to the node instead.
        network_node.add_program(
            "ip",
            '#!/bin/sh\n[ "$*" != \'-4 route get 192.0.2.1\' ] || exit 2\nexec /sbin/ip "$@"\n',
        )
        job = workflow(
            step("true", vnet_interface("b", "10.10.0.9/16")),
            virtualNetworks=NETWORKS,
            env=[{"key": "NODE_IPADDR", "value": "fd00::1"}],
        )

        assert network_node.run(job)[0] == 0
        assert "Endpoint = [fd00::1]:" in tunnels(network_node)[-1][1]

    def test_a_failed_job_leaves_no_directory_and_no_gateway(self, network_node):
        """In contrast, DeepSquare's implementation leaves the directory and all gateways but one.

        The fixture network_node checks that no process and no file remain.
        """
        job = workflow(
            step("exit 5", vnet_interface("b", "10.10.0.9/16")), virtualNetworks=NETWORKS
        )

        assert network_node.run(job)[0] == 5

    def test_a_cancelled_job_leaves_no_gateway(self, network_node):
        job = workflow(
            step("touch started; sleep 20", vnet_interface("b", "10.10.0.9/16")),
            virtualNetworks=NETWORKS,
        )
        running_job = network_node.start(job)
        wait_for(lambda: list(network_node.root.glob("cache/shared/*/*/started")))

        os.killpg(running_job.pid, signal.SIGTERM)
        running_job.communicate(timeout=15)

        assert running_job.returncode == 143

    def test_a_job_that_ends_before_its_networks_are_open_leaves_no_process(self, network_node):
        network_node.add_program("curl", "#!/bin/sh\nexit 22\n")
        source = {"http": {"url": "http://in.example/x"}}

        code, output = network_node.run(
            workflow("echo never", virtualNetworks=[NETWORKS[0]], input=source)
        )

        assert (code, output) == (22, "gridstead: fetching the input\n")

    def test_a_virtual_network_that_cannot_be_opened_fails_the_job(self, network_node):
        network_node.add_program("wg-quick", "#!/bin/sh\nexit 3\n")

        code, output = network_node.run(workflow("echo never", virtualNetworks=[NETWORKS[0]]))

        assert code == 71
        assert "could not open virtual network 1" in output
        assert "never" not in output
