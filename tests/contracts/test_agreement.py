# SPDX-License-Identifier: Apache-2.0
"""The domain decides as the contracts do: the same table of moves, the same formulas, to the wei."""

import random

import pytest
from tests.contracts.ledger.paid_time import told_minutes_floor
from web3.exceptions import ContractLogicError

from gridstead.adapters.chain.abi import reason
from gridstead.domain.billing import (
    LONGEST_MIN,
    MAX_CPUS,
    MAX_GPUS,
    MAX_MEMORY_MB,
    Prices,
    Resources,
    cost_floor,
    paid_seconds_ceil,
    price_per_minute,
    settle,
)
from gridstead.domain.lifecycle import COLD, JobState, is_legal

SAMPLES = 200


@pytest.fixture(scope="module")
def solidity(compiled, deploy):
    return deploy(*compiled("LibraryCaller.sol", "LibraryCaller")).functions


@pytest.fixture
def numbers():
    return random.Random(20261120)


def any_number(numbers, bits):
    """Return a number of any length, so that small and great ones are equally likely."""
    return numbers.getrandbits(numbers.randint(1, bits))


@pytest.mark.parametrize("from_state", JobState)
def test_the_table_of_moves_is_the_same(solidity, from_state):
    python = [is_legal(from_state, to_state) for to_state in JobState]

    assert python == [solidity.isLegal(from_state, to_state).call() for to_state in JobState]


def expected_refusal(from_state, to_state):
    if from_state is to_state:
        return "SameStatusError", ()
    if from_state in COLD:
        return "JobHotStatusOnly", (str(int(from_state)),)
    return "InvalidTransition", (str(int(from_state)), str(int(to_state)))


@pytest.mark.parametrize("from_state", JobState)
def test_the_contract_refuses_exactly_the_illegal_moves_with_the_most_telling_error(
    solidity, from_state
):
    for to_state in JobState:
        if is_legal(from_state, to_state):
            solidity.check(from_state, to_state).call()
            continue
        with pytest.raises(ContractLogicError) as refused:
            solidity.check(from_state, to_state).call()

        assert reason(bytes.fromhex(refused.value.data[2:])) == expected_refusal(
            from_state, to_state
        )


def test_a_cost_is_the_same(solidity, numbers):
    for _ in range(SAMPLES):
        seconds, price = any_number(numbers, 64), any_number(numbers, 96)

        assert cost_floor(seconds, price) == solidity.costDown(seconds, price).call()


def test_a_price_is_the_same(solidity, numbers):
    for _ in range(SAMPLES):
        gpus, memory, cpus, tasks = (any_number(numbers, bits) for bits in (20, 19, 10, 10))
        gpu, cpu, mb = (any_number(numbers, bits) for bits in (72, 72, 56))
        resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)
        prices = Prices(gpu_per_min=gpu, cpu_per_min=cpu, memory_mb_per_min=mb)

        python = price_per_minute(resources, prices)

        assert python == solidity.pricePerMinute(gpus, memory, cpus, tasks, (gpu, cpu, mb)).call()


def test_a_bill_is_divided_the_same_way(solidity, numbers):
    for _ in range(SAMPLES):
        lock, seconds, price = (
            any_number(numbers, 128),
            any_number(numbers, 32),
            any_number(numbers, 96),
        )
        cut = numbers.randint(0, 100)

        bill = settle(escrow=lock, seconds=seconds, price_per_min=price, fee_percent=cut)

        cost = min(lock, solidity.costDown(seconds, price).call())
        assert (bill.cost, bill.fee) == (cost, solidity.feeDown(cost, cut).call())
        assert bill.provider + bill.fee + bill.refund == lock


def some_locks(numbers):
    """Yield locks and prices: any, and those around the longest time and around whole minutes."""
    for _ in range(SAMPLES):
        price = any_number(numbers, 96)
        yield any_number(numbers, 128), price
        longest = min(LONGEST_MIN * price, 2**128 - 2)
        yield from ((max(0, longest + more), price) for more in (-1, 0, 1))
        yield max(0, numbers.randint(1, 10**6) * price + numbers.choice([-1, 0, 1])), price
    yield from ((lock, price) for lock in (0, 1, 2**128 - 1) for price in (0, 1, 2**96 - 1))


def test_the_minutes_of_a_lock_are_the_same(solidity, numbers):
    for lock, price in some_locks(numbers):
        assert told_minutes_floor(lock, price) == solidity.minutesDown(lock, price).call()


def test_the_seconds_of_a_lock_are_the_same(solidity, numbers):
    for lock, price in some_locks(numbers):
        assert paid_seconds_ceil(lock, price) == solidity.paidSecondsUp(lock, price).call()


def around(numbers, bound):
    return numbers.choice(
        [0, 1, max(0, bound - 1), bound, bound + 1, 2**64 - 1, any_number(numbers, 64)]
    )


def test_the_same_resources_are_valid(solidity, numbers):
    seen = set()
    for _ in range(5 * SAMPLES):
        gpus, tasks = around(numbers, MAX_GPUS), numbers.choice([0, 1, 7, any_number(numbers, 22)])
        cpus = around(numbers, MAX_CPUS // max(1, tasks))
        memory = around(numbers, MAX_MEMORY_MB // max(1, tasks * cpus))
        resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)

        assert (
            resources.is_valid
            == solidity.isValid((gpus, memory, cpus, tasks, "", 0, [], [])).call()
        )
        seen.add(resources.is_valid)
    assert seen == {True, False}
