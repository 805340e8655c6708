# SPDX-License-Identifier: Apache-2.0
"""Python and Solidity have the same table of transitions and the same formulas."""

import itertools
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
    divide_escrow,
    paid_seconds_ceil,
    price_per_minute,
)
from gridstead.domain.jobs.lifecycle import COLD, JobState, is_legal

SAMPLES = 200


@pytest.fixture(scope="module")
def solidity(read_compiled, deploy):
    return deploy(*read_compiled("LibraryCaller.sol", "LibraryCaller")).functions


@pytest.fixture
def numbers():
    return random.Random(20261120)


def draw_number(numbers, bits):
    """Return a number with a random bit length of up to ``bits``."""
    return numbers.getrandbits(numbers.randint(1, bits))


@pytest.mark.parametrize("to_state", JobState)
@pytest.mark.parametrize("from_state", JobState)
def test_python_and_solidity_have_the_same_transition_table(solidity, from_state, to_state):
    assert solidity.isLegal(from_state, to_state).call() == is_legal(from_state, to_state)


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
        with pytest.raises(ContractLogicError) as error:
            solidity.check(from_state, to_state).call()

        refusal = reason(bytes.fromhex(error.value.data[2:]))
        assert refusal == expected_refusal(from_state, to_state)


def test_python_and_solidity_compute_the_same_cost(solidity, numbers):
    for _ in range(SAMPLES):
        seconds, price = draw_number(numbers, 64), draw_number(numbers, 96)

        assert cost_floor(seconds, price) == solidity.costDown(seconds, price).call()


def test_python_and_solidity_compute_the_same_price(solidity, numbers):
    for _ in range(SAMPLES):
        gpus, memory = draw_number(numbers, 20), draw_number(numbers, 19)
        cpus, tasks = draw_number(numbers, 10), draw_number(numbers, 10)
        gpu_price, cpu_price = draw_number(numbers, 72), draw_number(numbers, 72)
        memory_price = draw_number(numbers, 56)
        resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)
        prices = Prices(
            gpu_per_min=gpu_price, cpu_per_min=cpu_price, memory_mb_per_min=memory_price
        )

        solidity_prices = (gpu_price, cpu_price, memory_price)
        expected = solidity.pricePerMinute(gpus, memory, cpus, tasks, solidity_prices).call()
        assert price_per_minute(resources, prices) == expected


def test_python_and_solidity_divide_a_bill_in_the_same_way(solidity, numbers):
    for _ in range(SAMPLES):
        escrow = draw_number(numbers, 128)
        seconds = draw_number(numbers, 32)
        price = draw_number(numbers, 96)
        cut = numbers.randint(0, 100)

        bill = divide_escrow(escrow=escrow, seconds=seconds, price_per_min=price, fee_percent=cut)

        cost = min(escrow, solidity.costDown(seconds, price).call())
        assert (bill.cost, bill.fee) == (cost, solidity.feeDown(cost, cut).call())
        assert bill.provider + bill.fee + bill.refund == escrow


def escrows_and_prices(numbers):
    """Yield pairs of escrow and price.

    Some escrows are random. Others differ by at most 1 wei from the price of the longest time, or
    from the price of a whole number of minutes. The remaining pairs are extreme values.
    """
    for _ in range(SAMPLES):
        price = draw_number(numbers, 96)
        yield draw_number(numbers, 128), price
        # With 1 wei more, the escrow must still fit into 128 bits.
        price_of_longest_time = min(MAX_PAID_MINUTES * price, 2**128 - 2)
        for difference in (-1, 0, 1):
            yield max(0, price_of_longest_time + difference), price
        price_of_whole_minutes = numbers.randint(1, 10**6) * price
        yield max(0, price_of_whole_minutes + numbers.choice([-1, 0, 1])), price
    yield from itertools.product((0, 1, 2**128 - 1), (0, 1, 2**96 - 1))


def test_python_and_solidity_compute_the_same_paid_minutes(solidity, numbers):
    for escrow, price in escrows_and_prices(numbers):
        assert emitted_minutes_floor(escrow, price) == solidity.minutesDown(escrow, price).call()


def test_python_and_solidity_compute_the_same_paid_seconds(solidity, numbers):
    for escrow, price in escrows_and_prices(numbers):
        assert paid_seconds_ceil(escrow, price) == solidity.paidSecondsUp(escrow, price).call()


def draw_near(numbers, bound):
    """Return a number at or near a bound, an extreme number, or any number."""
    return numbers.choice(
        [0, 1, max(0, bound - 1), bound, bound + 1, 2**64 - 1, draw_number(numbers, 64)]
    )


def test_python_and_solidity_accept_the_same_resources(solidity, numbers):
    results = set()  # both results must occur
    for _ in range(5 * SAMPLES):
        gpus = draw_near(numbers, MAX_GPUS)
        tasks = numbers.choice([0, 1, 7, draw_number(numbers, 22)])
        cpus = draw_near(numbers, MAX_CPUS // max(1, tasks))
        memory = draw_near(numbers, MAX_MEMORY_MB // max(1, tasks * cpus))
        resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory)

        definition = (gpus, memory, cpus, tasks, "", 0, [], [])
        assert solidity.isValid(definition).call() == resources.is_valid
        results.add(resources.is_valid)
    assert results == {True, False}
