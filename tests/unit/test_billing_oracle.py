# SPDX-License-Identifier: Apache-2.0
"""Tests of the billing oracle against examples, and of the domain's billing against the oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import billing_oracle as oracle

from gridstead.domain.jobs import billing
from gridstead.domain.jobs.billing import Prices, Resources

CREDIT = 10**18
WEI = st.integers(0, 10**30)
PRICE = st.integers(1, 10**30)
SECONDS = st.integers(0, 10**9)
PERCENT = st.integers(0, 100)
COUNT = st.integers(0, 10**6)


def test_oracle_price_matches_a_manual_calculation():
    """Per minute: 4 CPUs at 0.95, 2000 MB at 0.00008, 1 GPU at 8.5: 3.8 + 0.16 + 8.5 = 12.46."""
    resources = Resources(gpus=1, tasks=2, cpus_per_task=2, memory_per_cpu_mb=500)
    prices = Prices(
        gpu_per_min=8_500_000_000_000_000_000,
        cpu_per_min=950_000_000_000_000_000,
        memory_mb_per_min=80_000_000_000_000,
    )

    assert oracle.price(resources, prices) == 12_460_000_000_000_000_000


def test_oracle_bill_matches_the_billing_page():
    """443 s at 12.46 credits per minute cost 91.99633... credits. The fee of 20 % is 18.39926..."""
    # The underscores separate whole credits from the 18 digits after the decimal point.
    expected = oracle.Bill(
        cost=91_996333333333333333,
        provider=73_597066666666666667,
        fee=18_399266666666666666,
        refund=108_003666666666666667,
    )

    assert oracle.bill(200 * CREDIT, 443, 12_460_000_000_000_000_000) == expected
    assert oracle.paid_seconds(200 * CREDIT, 12_460_000_000_000_000_000) == 963


@pytest.mark.parametrize(
    ("seconds", "price", "cost"),
    [
        (0, 7, 0),
        (1, 59, 0),
        (1, 60, 1),
        (1, 119, 1),
        (59, 1, 0),
        (60, 1, 1),
        (90, 3, 4),
        (90, 0, 0),
    ],
)
def test_cost_is_rounded_down(seconds, price, cost):
    assert oracle.cost(seconds, price) == cost


# The fee is 20 percent of the cost.
@pytest.mark.parametrize(("cost", "fee"), [(0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (99, 19)])
def test_fee_is_rounded_down_and_provider_earns_the_rest(cost, fee):
    assert oracle.fee(cost) == fee
    assert oracle.earned(cost) == cost - fee


def test_cost_is_at_most_the_escrow():
    # The escrow is 10 wei. 600 seconds at 2 wei per minute would cost 20 wei.
    assert oracle.bill(10, 600, 2) == oracle.Bill(cost=10, provider=8, fee=2, refund=0)


@pytest.mark.parametrize(
    ("escrow", "price", "seconds"),
    [
        (0, 7, 0),
        (1, 60, 1),
        (1, 61, 0),
        (7, 2, 210),
    ],
)
def test_paid_time_is_rounded_down(escrow, price, seconds):
    assert oracle.paid_seconds(escrow, price) == seconds


@pytest.mark.parametrize(
    ("cost", "price", "seconds"),
    [
        (0, 7, 0),
        (1, 60, 1),
        (1, 61, 1),
        (2, 61, 2),
    ],
)
def test_billed_time_is_rounded_up(cost, price, seconds):
    assert oracle.billed_seconds(cost, price) == seconds


# At a price of at least 60 wei per minute, each second costs at least 1 wei.
@given(seconds=SECONDS, price=st.integers(60, 10**30))
def test_billed_time_can_be_computed_from_its_cost(seconds, price):
    assert oracle.billed_seconds(oracle.cost(seconds, price), price) == seconds


@given(escrow=WEI, seconds=SECONDS, price=WEI, fee=PERCENT)
def test_domain_and_oracle_agree_on_the_bill(escrow, seconds, price, fee):
    bill = billing.divide_escrow(
        escrow=escrow, seconds=seconds, price_per_min=price, fee_percent=fee
    )
    expected = oracle.bill(escrow, seconds, price, fee)

    assert bill.cost == expected.cost
    assert bill.provider == expected.provider
    assert bill.fee == expected.fee
    assert bill.refund == expected.refund


@given(escrow=WEI, price=PRICE)
def test_domain_and_oracle_agree_on_the_paid_time(escrow, price):
    assert billing.paid_seconds_floor(escrow, price) == oracle.paid_seconds(escrow, price)


@given(counts=st.tuples(COUNT, COUNT, COUNT, COUNT), wei=st.tuples(WEI, WEI, WEI))
def test_domain_and_oracle_agree_on_the_price(counts, wei):
    gpus, tasks, cpus, memory_mb = counts
    gpu_price, cpu_price, memory_mb_price = wei
    resources = Resources(gpus=gpus, tasks=tasks, cpus_per_task=cpus, memory_per_cpu_mb=memory_mb)
    prices = Prices(gpu_per_min=gpu_price, cpu_per_min=cpu_price, memory_mb_per_min=memory_mb_price)

    assert billing.price_per_minute(resources, prices) == oracle.price(resources, prices)
