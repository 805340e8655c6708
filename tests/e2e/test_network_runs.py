# SPDX-License-Identifier: Apache-2.0
"""Tests of steps with private networks on the lab's Slurm.

The tests check routes, name servers, tunnels and networks between steps. The tunnels use
wireguard-go if the kernel has no WireGuard. The servers outside of the site, including the bore
server, run in the test process.
"""

import re
import shlex

import pytest
from tests.e2e import name_server
from tests.e2e import store as stores
from tests.e2e.conftest import wait_until
from tests.e2e.slurm_jobs import SlurmJobs, operator_access
from tests.fakes.bore_server import TOKEN, URL, BoreServer

pytestmark = pytest.mark.slurm

NETWORKS = ["slirp4netns", "pasta"]
POLL_URL = "for i in {1..100}; do curl -sf -m 2 %s && exit; sleep 0.2; done; exit 9"
CREATE_IMAGE = r"""
    mkdir -p image/{bin,dev,etc,proc,sys,tmp,var/tmp,deepsquare}
    for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
      install -D -m 755 "$file" "image$file"
    done
    mksquashfs image small.sqsh -quiet -no-progress -all-root
"""
SMALL_CONTAINER = {"image": "/small.sqsh"}
LIST_INTERFACES = "ip -o link | cut -d: -f2"
# Changes the network, opens a port below 1024 and the socket of ping, and adds a firewall table.
CHANGE_NETWORK = """\
set -e
ip address add 10.1.0.1/24 dev net0; ip link set lo up; ip tuntap add own0 mode tun
nft add table ip own && nft list tables
python3 -c '
import socket
socket.create_server(("127.0.0.1", 80))
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)'
id -u"""
# The user of the node that is user 0. In a nested user namespace it would be 0.
SHOW_OUTER_USER = """\
read -r user outer_user number </proc/self/uid_map; echo "$user $outer_user"
echo . >"$DEEPSQUARE_DISK_TMP/from-a-container"
"""
SERVE_PAGE = """\
mkdir web; echo "from a step on $SLURMD_NODENAME" >web/index.html
cd web; exec python3 -m http.server 8000"""
WAIT_FOR_TRAP = "for i in {1..100}; do [ -e ready ] && exit; sleep 0.1; done; exit 9"
TRAP_SIGNAL = "trap 'echo trapped; exit 0' 2; touch ready; while true; do sleep 0.1; done"
PAGE_SERVER_PROGRAM = """\
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers(), self.wfile.write(b"the page")
http.server.HTTPServer(("localhost", 8080), Page).handle_request()
"""


def run(command, network="pasta", *interfaces, **fields):
    step = {"command": command, "network": network, "shell": "/bin/bash"}
    return {"run": {**step, "customNetworkInterfaces": list(interfaces), **fields}}


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator_access(lab, tmp_path_factory.mktemp("ssh")), f"0x{'ab' * 20}")
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def web_server(lab):
    with stores.run_store(lab.gateway) as server:
        server.files["/hello"] = b"from outside\n"
        yield server


@pytest.fixture(scope="module")
def name_server_address(lab):
    with name_server.run_name_server(lab.gateway):
        yield lab.gateway


@pytest.fixture(scope="module")
def bore(lab):
    server = BoreServer(lab.gateway)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def tunnel(lab):
    """Return the tunnel interface of a step. The peer is the login host with a web server."""
    lab.sh(
        "login",
        """umask 077; cd /run
        for name in here there; do wg genkey | tee wg-$name.key | wg pubkey >wg-$name.pub; done
        wg genpsk >wg.psk
        ip link add wgtest type wireguard 2>&- || wireguard-go wgtest
        wg set wgtest listen-port 51999 private-key wg-here.key \\
          peer "$(cat wg-there.pub)" preshared-key wg.psk allowed-ips 10.8.0.2/32
        ip address add 10.8.0.1/24 dev wgtest; ip link set wgtest up
        mkdir -p wg-web; echo through the tunnel >wg-web/index.html
        systemd-run --quiet --unit=wg-web --working-directory=/run/wg-web \\
          python3 -m http.server --bind 10.8.0.1 8000""",
    )
    private, public, shared = lab.sh(
        "login", "cd /run; cat wg-there.key wg-here.pub wg.psk"
    ).split()
    endpoint = f"{lab.address('login')}:51999"
    peer = {
        "publicKey": public,
        "preSharedKey": shared,
        "allowedIPs": ["10.8.0.0/24"],
        "endpoint": endpoint,
    }
    yield {"wireguard": {"privateKey": private, "address": ["10.8.0.2/24"], "peers": [peer]}}
    lab.sh("login", "systemctl stop wg-web; ip link delete wgtest; rm -r /run/wg*")


@pytest.fixture(scope="module")
def submitted_jobs(lab, jobs, web_server, name_server_address, bore, tunnel):
    """Submit the jobs and return them."""
    silent_server = lab.address("db")  # this host runs no name server
    show = f"id -u; {LIST_INTERFACES}; curl -s {web_server.url}/hello"
    resolve = f"RES_OPTIONS=timeout:1 getent hosts {name_server.NAME}; cat /etc/resolv.conf"
    route = {"boreAddress": f"{lab.gateway}:{bore.port}", "targetPort": 8080, "secret": TOKEN}
    interfaces = [{"vnet": {"name": "ours", "address": f"10.9.0.{number}/24"}} for number in (2, 3)]
    virtual_network = {
        "nodes": "compute1,compute2",
        "virtualNetworks": [{"name": "ours", "gatewayAddress": "10.9.0.1/24"}],
    }
    download = f"{LIST_INTERFACES}; {POLL_URL % 'http://10.8.0.1:8000'}"
    meet = f'echo "to a step on $SLURMD_NODENAME"; {POLL_URL % "http://10.9.0.2:8000"}'
    read_interfaces = "while read -r line; do echo $line; done </proc/net/dev"
    trapping_step = {"launch": {"steps": [run(TRAP_SIGNAL)], "signalOnParentStepExit": 2}}
    jobs_by_name = {}
    for network in NETWORKS:
        jobs_by_name[network] = jobs.submit(
            run(show, network), run(resolve, network, dns=[silent_server, name_server_address])
        )
        jobs_by_name[f"tunnel by {network}"] = jobs.submit(run(download, network, tunnel))
    serve_page = f"python3 -c {shlex.quote(PAGE_SERVER_PROGRAM)}"
    jobs_by_name["bore"] = jobs.submit(run(serve_page, "slirp4netns", {"bore": route}))
    jobs_by_name["container"] = jobs.submit(
        run(CREATE_IMAGE, "host"), run(read_interfaces, container=SMALL_CONTAINER, shell="/bin/sh")
    )
    jobs_by_name["root"] = jobs.submit(
        *(run(CHANGE_NETWORK, network, mapUid=0) for network in NETWORKS),
        run(CREATE_IMAGE, "host"),
        run(SHOW_OUTER_USER, container=SMALL_CONTAINER, shell="/bin/sh", mapUid=0),
        run('rm "$DEEPSQUARE_DISK_TMP/from-a-container"', "host"),
    )
    jobs_by_name["signal"] = jobs.submit(trapping_step, run(WAIT_FOR_TRAP, "host"))
    jobs_by_name["virtual network"] = jobs.submit(
        {"launch": {"steps": [run(SERVE_PAGE, "pasta", interfaces[0])]}},
        run(meet, "slirp4netns", interfaces[1]),
        **virtual_network,
    )
    jobs_by_name["cancelled"] = jobs.submit(
        run(f"echo . >{jobs.home}/runs; sleep 300", "pasta", interfaces[0], tunnel),
        **virtual_network,
    )
    return jobs_by_name


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_has_a_route_and_tries_every_name_server(lab, jobs, submitted_jobs, network):
    result = jobs.wait(submitted_jobs[network])

    servers = "".join(f"nameserver {address}\n" for address in (lab.address("db"), lab.gateway))
    (entry,) = re.findall(f"{name_server.ANSWER} +{name_server.NAME}\n", result.output)
    assert result == (0, f"{jobs.user.uid}\n lo\n net0\nfrom outside\n{entry}{servers}")


@pytest.mark.parametrize("network", NETWORKS)
def test_a_step_downloads_through_a_tunnel(jobs, submitted_jobs, network):
    assert jobs.wait(submitted_jobs[f"tunnel by {network}"]) == (
        0,
        " lo\n net0\n wg0\nthrough the tunnel\n",
    )


def test_bore_forwards_a_connection_to_the_step(jobs, submitted_jobs, bore):
    with bore.connect_visitor() as channel:
        channel.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        # Read until the server closes the connection.
        answer = b"".join(iter(lambda: channel.recv(4096), b""))
    result = jobs.wait(submitted_jobs["bore"])

    assert answer.endswith(b"\r\n\r\nthe page")
    assert result.code == 0
    assert URL.decode().strip() in result.output
    assert bore.tokens == [TOKEN]


def test_a_container_uses_the_network_of_its_step(jobs, submitted_jobs):
    result = jobs.wait(submitted_jobs["container"])

    assert result.code == 0
    # The lines of /proc/net/dev start with the interface, for example "lo: 1234 12 0".
    assert set(re.findall(r"(?m)^(\w+): \d", result.output)) == {"lo", "net0"}


def test_a_step_that_maps_to_user_0_is_root_of_its_network(jobs, submitted_jobs):
    result = jobs.wait(submitted_jobs["root"])

    assert result == (0, "table ip own\n0\n" * 2 + f"0 {jobs.user.uid}\n")


def test_a_signal_reaches_the_command_of_a_step_with_a_network(jobs, submitted_jobs):
    assert jobs.wait(submitted_jobs["signal"]) == (0, "trapped\n")


def test_steps_on_two_nodes_connect_in_a_virtual_network(jobs, submitted_jobs):
    result = jobs.wait(submitted_jobs["virtual network"])

    assert result.code == 0
    assert set(re.findall(r"a step on (\w+)", result.output)) == {"compute1", "compute2"}
    assert "from a step" in result.output


def test_ended_and_cancelled_jobs_leave_nothing(lab, jobs, submitted_jobs):
    wait_until(
        lambda: lab.run("infra", "test", "-e", f"{jobs.home}/runs", check=False).returncode == 0,
        timeout=60,
    )

    jobs.cancel(submitted_jobs["cancelled"])

    for job in submitted_jobs.values():
        jobs.wait(job)
    wait_until(lambda: jobs.leftovers() == "", timeout=20)
