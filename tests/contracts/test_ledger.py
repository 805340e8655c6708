# SPDX-License-Identifier: Apache-2.0
"""A ledger in plain Python and the contracts agree on every call of random sequences, to the wei.

``GRIDSTEAD_LEDGER_SEQUENCES`` says how many sequences are played (100), ``GRIDSTEAD_LEDGER_SEED``
which is the first: a failure names the seed that plays its sequence alone.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tests.contracts.ledger import meta_scheduler, providers, records, steps
from tests.contracts.ledger.campaign import Campaign
from tests.contracts.ledger.coverage import gaps
from tests.contracts.ledger.replay import Disagreement
from tests.devnet import Anvil

from gridstead.adapters.chain.node import Node
from gridstead.domain.billing import Bill, paid_seconds_ceil, settle

SEQUENCES = int(os.environ.get("GRIDSTEAD_LEDGER_SEQUENCES", "100"))
SEED = int(os.environ.get("GRIDSTEAD_LEDGER_SEED", "20261120"))
ENOUGH_FOR_COVERAGE = 100
SECONDS_PER_SEQUENCE = 6


def _play(campaign, seeds):
    for seed in seeds:
        campaign.play(seed)


def _with_fee_rounded_up(**terms: int) -> Bill:
    bill = settle(**terms)
    more = min(1, bill.provider) if bill.cost * terms["fee_percent"] % 100 else 0
    return replace(bill, fee=bill.fee + more, provider=bill.provider - more)


@pytest.fixture(scope="module")
def campaign():
    anvil = Anvil("--timestamp", "1800000000")
    node = Node(anvil.url)
    try:
        made = Campaign(node, fund=lambda address: anvil.fund(address, 10**6))
        yield made
    finally:
        node.close()
        anvil.kill()


@pytest.mark.timeout(60 + SECONDS_PER_SEQUENCE * SEQUENCES)
def test_the_ledger_and_the_contracts_agree_on_every_call(campaign):
    _play(campaign, range(SEED, SEED + SEQUENCES))

    replay = campaign.replay
    print(
        f"{SEQUENCES} sequences from seed {SEED}: {replay.calls} calls, {replay.refusals.total()} refusals"
    )
    if SEQUENCES >= ENOUGH_FOR_COVERAGE:
        assert gaps(replay) == {}


WRONG_RULES = {
    "a fee is rounded up": (steps, "divide", _with_fee_rounded_up),
    "a deadline is rounded down": (
        steps,
        "paid_seconds_ceil",
        lambda lock, price: paid_seconds_ceil(lock, price) - 1,
    ),
    "a cancelled job may run to its paid end": (
        steps,
        "awaited_end",
        lambda job: job.started_at + paid_seconds_ceil(job.lock, job.price),
    ),
    "a finished job may run again": (records, "is_legal", lambda start, end: end != start),
    "a banned provider may claim": (
        providers,
        "is_joined",
        lambda model, one: providers.standing(model, one).approved,
    ),
    "a cancelled job spends its customer's credits": (
        meta_scheduler,
        "may_spend",
        lambda job: job.delegates,
    ),
    "a lock need not pay a minute": (meta_scheduler, "pays_a_minute", lambda *_: True),
    "a queue skips nothing": (records, "is_live", lambda *_: True),
}

# The seed of a sequence that shows the rule to be wrong; it is played before all others.
SHOWN_BY = {
    "a fee is rounded up": 20261128,
    "a deadline is rounded down": 20261157,
    "a cancelled job may run to its paid end": 20261189,
    "a finished job may run again": 20261121,
    "a banned provider may claim": 20261120,
    "a cancelled job spends its customer's credits": 20261135,
    "a lock need not pay a minute": 20261130,
    "a queue skips nothing": 20261121,
}


@pytest.mark.parametrize("rule", WRONG_RULES)
def test_a_wrong_rule_is_found(campaign, monkeypatch, rule):
    """The comparison is not blind: whatever part of the model is spoilt, some sequence shows it."""
    module, name, wrong = WRONG_RULES[rule]
    monkeypatch.setattr(module, name, wrong)

    with pytest.raises(Disagreement, match="GRIDSTEAD_LEDGER_SEED="):
        _play(campaign, (SHOWN_BY[rule], *range(SEED, SEED + ENOUGH_FOR_COVERAGE)))
