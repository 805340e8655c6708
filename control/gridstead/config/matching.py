# SPDX-License-Identifier: Apache-2.0
"""The settings of the meta-scheduler."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gridstead.config.tables import Chain, TickingService, Tls, Wallet
from gridstead.config.values import Endpoint, NaturalInt, Settings


class QueueView(Tls):
    """The queue view. It shows which jobs are pending and which providers are excluded, and why."""

    listen: Annotated[
        Endpoint, Field(description="Address to listen on.", examples=["0.0.0.0:8447"])
    ]


class Matching(Settings):
    """How jobs are matched. All meta-schedulers of a grid must have the same values."""

    policy: Annotated[
        Literal["cheapest", "balanced", "soonest"],
        Field(
            description="`cheapest` waits for the cheapest provider. `soonest` takes the cheapest "
            "provider that has room. `balanced` waits for a cheaper provider if the job saves more "
            "than the waiting time costs at the price of the provider that has room."
        ),
    ] = "balanced"
    half_life_blocks: Annotated[
        int,
        Field(
            ge=1000,  # with less, the exact numbers of a long chain become very large
            description="Number of blocks after which what a customer used counts half as much. "
            "302400 blocks are 7 days if a block takes 2 s.",
        ),
    ] = 302_400
    queue_allowance: Annotated[
        NaturalInt,
        Field(
            description="Number of jobs that may be matched to a provider while it has no room. "
            "With 0, nodes are idle from the end of a job until the next job is claimed. A "
            "grid of short jobs needs more."
        ),
    ] = 0
    gas_per_block: Annotated[
        int,
        Field(
            ge=300_000,  # one match
            description="Maximum gas of the matches of one block. A match uses about 52000, or "
            "293000 with the contracts of DeepSquare 1.2. Jobs for which the gas is not enough are "
            "matched in the next blocks, in the fair order.",
        ),
    ] = 15_000_000


class MetaSchedulerSettings(TickingService):
    """The settings of gridstead meta-scheduler."""

    state_url: Annotated[
        str,
        Field(
            description="SQLAlchemy URL of the database with the outbox, the decision log and the "
            "snapshot of the state."
        ),
    ] = "sqlite:////var/lib/gridstead/meta-scheduler/state.db"
    chain: Chain
    wallet: Wallet
    matching: Matching = Matching()
    queue_view: Annotated[
        QueueView | None,
        Field(description="The queue view. It is served only if this table exists."),
    ] = None
