# SPDX-License-Identifier: Apache-2.0
"""Commands that are refused on a real chain before they store or send anything."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.adapters.chain.test_customer import request
from tests.devnet import CHAIN_ID, COIN, wallet

from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.wallet import create_wallet

KEY_ITERATIONS = 2**13  # few rounds, so that the tests open wallets quickly
COMMAND = Path(sys.executable).with_name("gridstead")
# Exit codes.
INPUT_ERROR, REFUSED, TRANSIENT_ERROR, CONFIG_ERROR = 65, 69, 75, 78
WORKFLOW = (
    "resources: {tasks: 1, cpusPerTask: 1, memPerCpu: 64}\nsteps: [{run: {command: 'true'}}]\n"
)
# Numbers of wallets.
WITHOUT_CREDITS, WITHOUT_COINS = 77, 78
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
    """A socket in place of the Job Definition service, to detect whether a command connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


class Person:
    """A user at a terminal, with a wallet."""

    def __init__(self, folder, chain, definitions, number):
        self.folder, self.chain, self.definitions = folder, chain, definitions
        (folder / "password").write_text("a secret\n")
        create_wallet(
            folder / "key", folder / "password", key=number.to_bytes(32), iterations=KEY_ITERATIONS
        )
        (folder / "workflow.yaml").write_text(WORKFLOW)
        self.address = wallet(number).address
        self.write_settings()

    def write_settings(self, **changes):
        values = {
            "port": self.definitions.getsockname()[1],
            "rpc_url": self.chain.anvil.url,
            "chain_id": CHAIN_ID,
            "contract": self.chain.addresses["MetaScheduler"],
            "folder": self.folder,
        }
        (self.folder / "settings.toml").write_text(SETTINGS.format(**(values | changes)))

    def transaction_count(self):
        """Return how many transactions the wallet has sent, including pending transactions."""
        return int(self.chain.anvil.rpc("eth_getTransactionCount", self.address, "pending"), 16)

    def has_called_definitions(self):
        """Return whether a command connected to the Job Definition service."""
        try:
            self.definitions.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def person(tmp_path, chain, definitions):
    """Return a function that creates a person with the test wallet of this number."""

    def create(number=4):
        return Person(tmp_path, chain, definitions, number)

    return create


def run_refused(user, *arguments):
    """Run a command, and check that it sends nothing. Return the exit code and stderr."""
    count_before = user.transaction_count()
    command = [COMMAND, *arguments, "--config", str(user.folder / "settings.toml")]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert user.transaction_count() == count_before
    assert not user.has_called_definitions()
    return result.returncode, result.stderr


def submit_arguments(user, *, credits_=100):
    """Return the arguments of a command that submits a workflow."""
    return ("submit", str(user.folder / "workflow.yaml"), "--credits", str(credits_))


def test_insufficient_credits_are_reported_with_the_balance(person, chain):
    user = person(WITHOUT_CREDITS)
    chain.anvil.fund(user.address)

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == INPUT_ERROR
    assert f"wallet {user.address} has only 0 credits" in errors
    assert "--credits is 100" in errors


def test_wallet_without_coins_is_refused(person, chain):
    user = person(WITHOUT_COINS)
    chain.as_admin.transfer(user.address, 100 * COIN)

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == INPUT_ERROR
    assert "has no coins to pay for gas" in errors


def test_refusal_of_an_escrow_below_the_minimum_contains_the_minimum(person):
    user = person()

    code, errors = run_refused(user, *submit_arguments(user, credits_="99.5"))

    assert code == INPUT_ERROR
    assert "the minimum is 100" in errors


def test_wrong_password_is_an_error_before_anything_is_stored(person):
    user = person()
    (user.folder / "password").write_text("another\n")

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == CONFIG_ERROR
    assert "cannot open wallet" in errors
    assert "hint: " in errors
    assert "another" not in errors


def test_key_of_another_wallet_is_an_error_before_anything_is_stored(person):
    user = person()
    key = user.folder / "key"
    document = json.loads(key.read_text())
    document["address"] = wallet(WITHOUT_CREDITS).address
    key.write_text(json.dumps(document))

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == CONFIG_ERROR
    assert "its key is that of" in errors


@pytest.mark.parametrize("verb", ["get", "history", "cancel", "watch", "logs"])
def test_unknown_job_is_refused(person, verb):
    code, errors = run_refused(person(), "job", verb, "7")

    assert code == INPUT_ERROR
    assert "there is no job 7" in errors


def test_job_of_another_customer_is_not_cancelled(person, chain):
    user = person(WITHOUT_CREDITS)
    chain.anvil.fund(user.address)
    number = job_of_another_customer(chain)

    code, errors = run_refused(user, "job", "cancel", str(number))

    assert code == REFUSED
    assert "contract refused cancelJob" in errors


def test_unreachable_chain_is_a_transient_error(person):
    user = person()
    user.write_settings(rpc_url="http://127.0.0.1:1")

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == TRANSIENT_ERROR
    assert "could not reach the chain" in errors


def test_endpoint_of_another_chain_is_a_config_error(person):
    user = person()
    user.write_settings(chain_id=1)

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == CONFIG_ERROR
    assert f"serves chain {CHAIN_ID}" in errors


def test_address_without_contracts_is_a_config_error(person):
    user = person()
    user.write_settings(contract="0x" + "12" * 20)

    code, errors = run_refused(user, *submit_arguments(user))

    assert code == CONFIG_ERROR
    assert "Set chain.contract to" in errors


def job_of_another_customer(chain):
    return Customer(chain.node, chain.contracts, chain.customer).request_job(request())
