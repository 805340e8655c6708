# SPDX-License-Identifier: Apache-2.0
"""What the command line refuses on a real chain: nothing is stored, nothing is sent."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.devnet import CHAIN_ID, COIN, wallet

from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.wallet import create_wallet

CHEAP = 2**13
COMMAND = Path(sys.executable).with_name("gridstead")
INPUT, REFUSED, LATER, CONFIG = 65, 69, 75, 78
WORKFLOW = (
    "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 64}\nsteps: [{run: {command: 'true'}}]\n"
)
POOR, PENNILESS = 77, 78
SETTINGS = """\
job_definitions_url = "https://127.0.0.1:{port}/graphql"
[chain]
rpc_url = "{rpc_url}"
chain_id = {chain_id}
contract = "{contract}"
confirmations = 1
[wallet]
keystore_file = "{folder}/key"
password_file = "{folder}/password"
[logger]
endpoint = "127.0.0.1:{port}"
ca_file = "{folder}/ca"
"""


@pytest.fixture
def definitions():
    """Where the Job Definition service would listen: whoever connects is seen."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


class Person:
    """Somebody at a terminal, with a key on the chain."""

    def __init__(self, folder, chain, definitions, number):
        self.folder, self.chain, self.definitions = folder, chain, definitions
        (folder / "password").write_text("a secret\n")
        create_wallet(
            folder / "key", folder / "password", key=number.to_bytes(32), iterations=CHEAP
        )
        (folder / "workflow.yaml").write_text(WORKFLOW)
        self.address = wallet(number).address
        self.write_settings()

    def write_settings(self, **changed):
        values = {
            "port": self.definitions.getsockname()[1],
            "rpc_url": self.chain.anvil.url,
            "chain_id": CHAIN_ID,
            "contract": self.chain.addresses["MetaScheduler"],
            "folder": self.folder,
        }
        (self.folder / "settings.toml").write_text(SETTINGS.format(**(values | changed)))

    def sent(self):
        """Return how many transactions the wallet has sent, those that wait included."""
        return int(self.chain.anvil.rpc("eth_getTransactionCount", self.address, "pending"), 16)

    def asked_for_storage(self):
        """Return whether anybody called the Job Definition service."""
        try:
            self.definitions.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def person(tmp_path, chain, definitions):
    def made(number=4):
        return Person(tmp_path, chain, definitions, number)

    return made


def refused(someone, *arguments):
    """Run a command that is refused, check that it changed nothing, and return its exit code and
    words.
    """
    before = someone.sent()
    command = [COMMAND, *arguments, "--config", str(someone.folder / "settings.toml")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert someone.sent() == before
    assert not someone.asked_for_storage()
    return done.returncode, done.stderr


def submit(someone, *options, credits_=100):
    return ("submit", str(someone.folder / "workflow.yaml"), "--credits", str(credits_), *options)


def test_a_wallet_without_credits_is_told_what_it_has(person, chain):
    poor = person(POOR)
    chain.anvil.fund(poor.address)

    code, told = refused(poor, *submit(poor))

    assert code == INPUT
    assert f"wallet {poor.address} has only 0 credits" in told
    assert "--credits is 100" in told


def test_a_wallet_that_cannot_pay_for_gas_is_told(person, chain):
    penniless = person(PENNILESS)
    chain.as_admin.transfer(penniless.address, 100 * COIN)

    code, told = refused(penniless, *submit(penniless))

    assert code == INPUT
    assert "has no coins to pay for gas" in told


def test_a_lock_below_the_least_is_told_with_the_least(person):
    someone = person()

    code, told = refused(someone, *submit(someone, credits_="99.5"))

    assert code == INPUT
    assert "the minimum is 100" in told


def test_a_wrong_password_is_told_before_anything_is_stored(person):
    someone = person()
    (someone.folder / "password").write_text("another\n")

    code, told = refused(someone, *submit(someone))

    assert code == CONFIG
    assert "cannot open wallet" in told
    assert "hint: " in told
    assert "another" not in told


def test_a_key_of_another_wallet_is_told_before_anything_is_stored(person):
    someone = person()
    key = someone.folder / "key"
    key.write_text(json.dumps(json.loads(key.read_text()) | {"address": wallet(POOR).address}))

    code, told = refused(someone, *submit(someone))

    assert code == CONFIG
    assert "its key is that of" in told


@pytest.mark.parametrize("verb", ["get", "history", "cancel", "watch", "logs"])
def test_a_job_that_is_not_there_is_told(person, verb):
    code, told = refused(person(), "job", verb, "7")

    assert code == INPUT
    assert "there is no job 7" in told


def test_a_job_of_another_is_not_cancelled(person, chain):
    poor = person(POOR)
    chain.anvil.fund(poor.address)
    number = other_persons_job(chain)

    code, told = refused(poor, "job", "cancel", str(number))

    assert code == REFUSED
    assert "contract refused cancelJob" in told


def test_a_chain_that_does_not_answer_may_answer_later(person):
    someone = person()
    someone.write_settings(rpc_url="http://127.0.0.1:1")

    code, told = refused(someone, *submit(someone))

    assert code == LATER
    assert "could not reach the chain" in told


def test_another_chain_at_the_endpoint_is_the_settings_matter(person):
    someone = person()
    someone.write_settings(chain_id=1)

    code, told = refused(someone, *submit(someone))

    assert code == CONFIG
    assert f"serves chain {CHAIN_ID}" in told


def test_an_address_without_contracts_is_the_settings_matter(person):
    someone = person()
    someone.write_settings(contract="0x" + "12" * 20)

    code, told = refused(someone, *submit(someone))

    assert code == CONFIG
    assert "Set chain.contract to" in told


def other_persons_job(chain):
    from tests.adapters.chain.test_customer import request  # noqa: PLC0415 - its shortcut

    return Customer(chain.node, chain.contracts, chain.customer).request_job(request())
