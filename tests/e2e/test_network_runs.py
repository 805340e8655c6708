# SPDX-License-Identifier: Apache-2.0
"""Steps with networks of their own on the lab's Slurm: ways out, name servers, tunnels, and
networks among steps.

Tunnels are wireguard-go's where the kernel has none. The servers outside, that of bore among them,
are of this process.
"""

import re
import shlex

import pytest
from tests.e2e import name_server
from tests.e2e import store as stores
from tests.e2e.conftest import wait_until
from tests.e2e.slurm_jobs import SlurmJobs, operator
from tests.fakes.bore_server import TOKEN, URL, BoreServer

pytestmark = pytest.mark.slurm

KINDS = ["slirp4netns", "pasta"]
POLL = "for i in {1..100}; do curl -sf -m 2 %s && exit; sleep 0.2; done; exit 9"
IMAGE = r"""
    mkdir -p image/{bin,dev,etc,proc,sys,tmp,var/tmp,deepsquare}
    for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do install -D -m 755 "$file" "image$file"; done
    mksquashfs image small.sqsh -quiet -no-progress -all-root
"""
SMALL = {"image": "/small.sqsh"}
INTERFACES = "ip -o link | cut -d: -f2"
SERVE = 'mkdir web; echo "from a step on $SLURMD_NODENAME" >web/index.html; cd web; exec python3 -m http.server 8000'
WAITING = "for i in {1..100}; do [ -e ready ] && exit; sleep 0.1; done; exit 9"
TRAPPED = "trap 'echo trapped; exit 0' 2; touch ready; while true; do sleep 0.1; done"
ONE_PAGE = """\
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers(), self.wfile.write(b"the page")
http.server.HTTPServer(("localhost", 8080), Page).handle_request()
"""


def run(command, network="pasta", *interfaces, **fields):
    words = {
        "network": network,
        "customNetworkInterfaces": list(interfaces),
        "shell": "/bin/bash",
        **fields,
    }
    return {"run": {"command": command, **words}}


@pytest.fixture(scope="module")
def jobs(lab, tmp_path_factory):
    jobs = SlurmJobs(lab, operator(lab, tmp_path_factory.mktemp("ssh")), f"0x{'ab' * 20}")
    yield jobs
    jobs.close()


@pytest.fixture(scope="module")
def web(lab):
    with stores.running(lab.gateway) as one:
        one.files["/hello"] = b"from outside\n"
        yield one


@pytest.fixture(scope="module")
def names(lab):
    with name_server.running(lab.gateway):
        yield lab.gateway


@pytest.fixture(scope="module")
def bore(lab):
    server = BoreServer(lab.gateway)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def tunnel(lab):
    """The step's end of a tunnel; the other is on the login host, with a web server in it."""
    lab.sh(
        "login",
        """umask 077; cd /run
        for name in here there; do wg genkey | tee wg-$name.key | wg pubkey >wg-$name.pub; done; wg genpsk >wg.psk
        ip link add wgtest type wireguard 2>&- || wireguard-go wgtest
        wg set wgtest listen-port 51999 private-key wg-here.key peer "$(cat wg-there.pub)" preshared-key wg.psk \\
          allowed-ips 10.8.0.2/32
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
def started(lab, jobs, web, names, bore, tunnel):
    """Submit the jobs and return them."""
    silent = lab.address("db")
    look = f"id -u; {INTERFACES}; curl -s {web.url}/hello"
    resolve = f"RES_OPTIONS=timeout:1 getent hosts {name_server.NAME}; cat /etc/resolv.conf"
    route = {"boreAddress": f"{lab.gateway}:{bore.port}", "targetPort": 8080, "secret": TOKEN}
    ends = [{"vnet": {"name": "ours", "address": f"10.9.0.{number}/24"}} for number in (2, 3)]
    meeting = {
        "nodes": "compute1,compute2",
        "virtualNetworks": [{"name": "ours", "gatewayAddress": "10.9.0.1/24"}],
    }
    return {
        **{
            kind: jobs.submit(run(look, kind), run(resolve, kind, dns=[silent, names]))
            for kind in KINDS
        },
        **{
            f"tunnel by {kind}": jobs.submit(
                run(f"{INTERFACES}; {POLL % 'http://10.8.0.1:8000'}", kind, tunnel)
            )
            for kind in KINDS
        },
        "bore": jobs.submit(
            run(f"python3 -c {shlex.quote(ONE_PAGE)}", "slirp4netns", {"bore": route})
        ),
        "container": jobs.submit(
            run(IMAGE, "host"),
            run(
                "while read -r line; do echo $line; done </proc/net/dev",
                container={"image": "/small.sqsh"},
                shell="/bin/sh",
            ),
        ),
        "signal": jobs.submit(
            {"launch": {"steps": [run(TRAPPED)], "signalOnParentStepExit": 2}}, run(WAITING, "host")
        ),
        "met": jobs.submit(
            {"launch": {"steps": [run(SERVE, "pasta", ends[0])]}},
            run(
                f'echo "to a step on $SLURMD_NODENAME"; {POLL % "http://10.9.0.2:8000"}',
                "slirp4netns",
                ends[1],
            ),
            **meeting,
        ),
        "cancelled": jobs.submit(
            run(f"echo . >{jobs.home}/runs; sleep 300", "pasta", ends[0], tunnel), **meeting
        ),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_leads_out_and_asks_every_name_server(lab, jobs, started, web, kind):
    ended = jobs.wait(started[kind])

    servers = "".join(f"nameserver {address}\n" for address in (lab.address("db"), lab.gateway))
    (found,) = re.findall(f"{name_server.ANSWER} +{name_server.NAME}\n", ended.output)
    assert ended == (0, f"{jobs.user.uid}\n lo\n net0\nfrom outside\n{found}{servers}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_packet_goes_through_a_tunnel(jobs, started, kind):
    assert jobs.wait(started[f"tunnel by {kind}"]) == (0, " lo\n net0\n wg0\nthrough the tunnel\n")


def test_somebody_outside_reaches_a_port_of_the_step(jobs, started, bore):
    with bore.visit() as channel:
        channel.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: channel.recv(4096), b""))
    ended = jobs.wait(started["bore"])

    assert answer.endswith(b"\r\n\r\nthe page")
    assert ended.code == 0
    assert URL.decode().strip() in ended.output
    assert bore.tokens == [TOKEN]


def test_a_container_is_in_the_network(jobs, started):
    ended = jobs.wait(started["container"])

    assert ended.code == 0
    assert set(re.findall(r"(?m)^(\w+): \d", ended.output)) == {"lo", "net0"}


def test_a_signal_reaches_the_command_in_a_network(jobs, started):
    assert jobs.wait(started["signal"]) == (0, "trapped\n")


def test_steps_on_two_nodes_meet_in_a_virtual_network(jobs, started):
    ended = jobs.wait(started["met"])

    assert ended.code == 0
    assert set(re.findall(r"a step on (\w+)", ended.output)) == {"compute1", "compute2"}
    assert "from a step" in ended.output


def test_nothing_is_left_not_of_a_cancelled_job_either(lab, jobs, started):
    wait_until(
        lambda: lab.run("infra", "test", "-e", f"{jobs.home}/runs", check=False).returncode == 0,
        timeout=60,
    )

    jobs.cancel(started["cancelled"])

    for job in started.values():
        jobs.wait(job)
    wait_until(lambda: jobs.left() == "", timeout=20)
