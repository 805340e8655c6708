# SPDX-License-Identifier: Apache-2.0
"""The domain decides as the contracts do: the same table of moves, the same formulas, to the wei."""

import random

import pytest
from web3.exceptions import ContractLogicError

from gridstead.domain.billing import Prices, Resources, cost_floor, paid_minutes_floor, price_per_minute, settle
from gridstead.domain.lifecycle import JobState, is_legal

SAMPLES = 200
MAX_MINUTES = 5_256_000


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


@pytest.mark.parametrize("from_state", JobState)
def test_the_contract_refuses_exactly_the_illegal_moves(solidity, from_state):
    for to_state in JobState:
        if is_legal(from_state, to_state):
            solidity.check(from_state, to_state).call()
        else:
            with pytest.raises(ContractLogicError):
                solidity.check(from_state, to_state).call()


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
        lock, seconds, price = any_number(numbers, 128), any_number(numbers, 32), any_number(numbers, 96)
        cut = numbers.randint(0, 100)

        bill = settle(lock=lock, seconds=seconds, price_per_min=price, fee_percent=cut)

        cost = min(lock, solidity.costDown(seconds, price).call())
        assert (bill.cost, bill.fee) == (cost, solidity.feeDown(cost, cut).call())
        assert bill.provider + bill.fee + bill.refund == lock


def test_the_minutes_of_a_lock_are_the_same_up_to_the_longest_time(solidity, numbers):
    for _ in range(SAMPLES):
        lock, price = any_number(numbers, 128), any_number(numbers, 96)
        python = paid_minutes_floor(lock, price)

        expected = MAX_MINUTES if python is None else min(python, MAX_MINUTES)
        assert expected == solidity.minutesDown(lock, price).call()
