# SPDX-License-Identifier: Apache-2.0
"""A Python model of the contracts agrees with the contracts on every call of random sequences.

``GRIDSTEAD_LEDGER_SEQUENCES`` is the number of sequences (default 100), and
``GRIDSTEAD_LEDGER_SEED`` is the first seed. A failure prints the seed of the sequence that failed.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tests.contracts.ledger import meta_scheduler, providers, records, steps
from tests.contracts.ledger.campaign import Campaign
from tests.contracts.ledger.coverage import coverage_gaps
from tests.contracts.ledger.replay import Disagreement
from tests.devnet import Anvil

from gridstead.adapters.chain.node import Node
from gridstead.domain.jobs.billing import Bill, divide_escrow, paid_seconds_ceil

SEQUENCES = int(os.environ.get("GRIDSTEAD_LEDGER_SEQUENCES", "100"))
SEED = int(os.environ.get("GRIDSTEAD_LEDGER_SEED", "20261120"))
MIN_SEQUENCES_FOR_COVERAGE = 100
SECONDS_PER_SEQUENCE = 6


def _play(campaign, seeds):
    for seed in seeds:
        campaign.play(seed)


def _with_fee_rounded_up(**terms: int) -> Bill:
    bill = divide_escrow(**terms)
    if bill.cost * terms["fee_percent"] % 100 == 0:
        return bill
    added_fee = min(1, bill.provider)  # One wei, or nothing if the provider gets nothing.
    return replace(bill, fee=bill.fee + added_fee, provider=bill.provider - added_fee)


@pytest.fixture(scope="module")
def campaign():
    anvil = Anvil("--timestamp", "1800000000")
    node = Node(anvil.url)
    try:
        yield Campaign(node, fund=lambda address: anvil.fund(address, 10**6))
    finally:
        node.close()
        anvil.kill()


@pytest.mark.timeout(60 + SECONDS_PER_SEQUENCE * SEQUENCES)
def test_model_and_contracts_agree_on_every_call(campaign):
    _play(campaign, range(SEED, SEED + SEQUENCES))

    replay = campaign.replay
    refusals = replay.refusals.total()
    print(f"{SEQUENCES} sequences from seed {SEED}: {replay.calls} calls, {refusals} refusals")
    if SEQUENCES >= MIN_SEQUENCES_FOR_COVERAGE:
        assert coverage_gaps(replay) == {}


# For each wrong rule: the module and the name of the function to replace, and the wrong function.
WRONG_RULES = {
    "a fee is rounded up": (steps, "divide_escrow", _with_fee_rounded_up),
    "a deadline is a second too early": (
        steps,
        "paid_seconds_ceil",
        lambda escrow, price: paid_seconds_ceil(escrow, price) - 1,
    ),
    "a request to cancel does not change the expiry": (
        steps,
        "latest_end",
        lambda job: job.started_at + paid_seconds_ceil(job.escrow, job.price),
    ),
    "a hot job may change to any state": (records, "is_legal", lambda start, end: end != start),
    "a banned provider may claim": (
        providers,
        "is_joined",
        lambda model, provider: providers.standing(model, provider).approved,
    ),
    "a request before the start does not limit the bill": (
        steps,
        "billing_end",
        lambda model, _: model.now,
    ),
    "a refused request is matched again": (steps, "is_requested", lambda _: False),
    "a cancelled job accepts a delegated top-up": (
        meta_scheduler,
        "may_spend",
        lambda job: job.delegates,
    ),
    "an escrow may pay less than a minute": (meta_scheduler, "pays_a_minute", lambda *_: True),
    "a queue skips no stale entry": (records, "is_live", lambda *_: True),
}

# For each wrong rule, the seed of a sequence that detects it. The test plays this sequence first.
DETECTING_SEEDS = {
    "a fee is rounded up": 20261120,
    "a deadline is a second too early": 20261151,
    "a request to cancel does not change the expiry": 20261139,
    "a hot job may change to any state": 20261121,
    "a banned provider may claim": 20261120,
    "a request before the start does not limit the bill": 20261131,
    "a refused request is matched again": 20261124,
    "a cancelled job accepts a delegated top-up": 20261133,
    "an escrow may pay less than a minute": 20261120,
    "a queue skips no stale entry": 20261120,
}


@pytest.mark.parametrize("rule", WRONG_RULES)
def test_wrong_rule_of_the_model_is_detected(campaign, monkeypatch, rule):
    """With a wrong rule, the model and the contracts disagree in at least one sequence."""
    module, name, wrong_function = WRONG_RULES[rule]
    monkeypatch.setattr(module, name, wrong_function)

    with pytest.raises(Disagreement, match="GRIDSTEAD_LEDGER_SEED="):
        _play(campaign, (DETECTING_SEEDS[rule], *range(SEED, SEED + MIN_SEQUENCES_FOR_COVERAGE)))
