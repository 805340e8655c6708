# SPDX-License-Identifier: Apache-2.0
"""The domain and the contracts have the same table of transitions and the same exact formulas."""

import random

import pytest
from tests.contracts.ledger.paid_time import emitted_minutes_floor
from web3.exceptions import ContractLogicError

from gridstead.adapters.chain.abi import reason
from gridstead.domain.jobs.billing import (
    MAX_CPUS,
    MAX_GPUS,
    MAX_MEMORY_MB,
    MAX_PAID_MINUTES,
    Prices,
    Resources,
    cost_floor,
    paid_seconds_ceil,
    price_per_minute,
    settle,
)
from gridstead.domain.jobs.lifecycle import COLD, JobState, is_legal

SAMPLES = 200


@pytest.fixture(scope="module")
def solidity(compiled, deploy):
    return deploy(*compiled("LibraryCaller.sol", "LibraryCaller")).functions


@pytest.fixture
def numbers():
    return random.Random(20261120)


def any_number(numbers, bits):
    """Return a number of a random bit length, so that small numbers are as likely as large ones."""
    return numbers.getrandbits(numbers.randint(1, bits))


@pytest.mark.parametrize("from_state", JobState)
def test_transition_table_is_the_same(solidity, from_state):
    python = [is_legal(from_state, to_state) for to_state in JobState]

    assert python == [solidity.isLegal(from_state, to_state).call() for to_state in JobState]


def expected_refusal(from_state, to_state):
    if from_state is to_state:
        return "SameStatusError", ()
    if from_state in COLD:
        return "JobHotStatusOnly", (str(int(from_state)),)
    return "InvalidTransition", (str(int(from_state)), str(int(to_state)))


@pytest.mark.parametrize("from_state", JobState)
def test_contract_refuses_exactly_the_illegal_transitions(solidity, from_state):
    for to_state in JobState:
        if is_legal(from_state, to_state):
            solidity.check(from_state, to_state).call()
            continue
        with pytest.raises(ContractLogicError) as refused:
            solidity.check(from_state, to_state).call()

        assert reason(bytes.fromhex(refused.value.data[2:])) == expected_refusal(
            from_state, to_state
        )


def test_cost_is_the_same(solidity, numbers):
    for _ in range(SAMPLES):
        seconds, price = any_number(numbers, 64), any_number(numbers, 96)

        assert cost_floor(seconds, price) == solidity.costDown(seconds, price).call()


def test_price_is_the_same(solidity, numbers):
    for _ in range(SAMPLES):
        gpus, memory, cpus, tasks = (any_number(numbers, bits) for bits in (20, 19, 10, 10))
        gpu, cpu, mb = (any_number(numbers, bits) for bits in (72, 72, 56))
        resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)
        prices = Prices(gpu_per_min=gpu, cpu_per_min=cpu, memory_mb_per_min=mb)

        python = price_per_minute(resources, prices)

        assert python == solidity.pricePerMinute(gpus, memory, cpus, tasks, (gpu, cpu, mb)).call()


def test_bill_is_divided_the_same_way(solidity, numbers):
    for _ in range(SAMPLES):
        escrow, seconds, price = (
            any_number(numbers, 128),
            any_number(numbers, 32),
            any_number(numbers, 96),
        )
        cut = numbers.randint(0, 100)

        bill = settle(escrow=escrow, seconds=seconds, price_per_min=price, fee_percent=cut)

        cost = min(escrow, solidity.costDown(seconds, price).call())
        assert (bill.cost, bill.fee) == (cost, solidity.feeDown(cost, cut).call())
        assert bill.provider + bill.fee + bill.refund == escrow


def escrows_and_prices(numbers):
    """Yield escrows and prices: random ones, and ones near the longest time and whole minutes."""
    for _ in range(SAMPLES):
        price = any_number(numbers, 96)
        yield any_number(numbers, 128), price
        longest = min(MAX_PAID_MINUTES * price, 2**128 - 2)
        yield from ((max(0, longest + more), price) for more in (-1, 0, 1))
        yield max(0, numbers.randint(1, 10**6) * price + numbers.choice([-1, 0, 1])), price
    yield from ((escrow, price) for escrow in (0, 1, 2**128 - 1) for price in (0, 1, 2**96 - 1))


def test_paid_minutes_are_the_same(solidity, numbers):
    for escrow, price in escrows_and_prices(numbers):
        assert emitted_minutes_floor(escrow, price) == solidity.minutesDown(escrow, price).call()


def test_paid_seconds_are_the_same(solidity, numbers):
    for escrow, price in escrows_and_prices(numbers):
        assert paid_seconds_ceil(escrow, price) == solidity.paidSecondsUp(escrow, price).call()


def near(numbers, bound):
    return numbers.choice(
        [0, 1, max(0, bound - 1), bound, bound + 1, 2**64 - 1, any_number(numbers, 64)]
    )


def test_the_same_resources_are_valid(solidity, numbers):
    seen = set()
    for _ in range(5 * SAMPLES):
        gpus, tasks = near(numbers, MAX_GPUS), numbers.choice([0, 1, 7, any_number(numbers, 22)])
        cpus = near(numbers, MAX_CPUS // max(1, tasks))
        memory = near(numbers, MAX_MEMORY_MB // max(1, tasks * cpus))
        resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)

        assert (
            resources.is_valid
            == solidity.isValid((gpus, memory, cpus, tasks, "", 0, [], [])).call()
        )
        seen.add(resources.is_valid)
    assert seen == {True, False}
