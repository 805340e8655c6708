# SPDX-License-Identifier: Apache-2.0
"""The settings of the meta-scheduler."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, TickingService, Tls, Wallet
from gridstead.config.values import Endpoint


class QueueView(Tls):
    """The queue view. It shows which jobs are pending and which providers are excluded, and why."""

    listen: Annotated[
        Endpoint, Field(description="Address to listen on.", examples=["0.0.0.0:8447"])
    ]


class MetaSchedulerSettings(TickingService):
    """The settings of gridstead meta-scheduler."""

    state_url: Annotated[
        str, Field(description="SQLAlchemy URL of the database with the outbox.")
    ] = "sqlite:////var/lib/gridstead/meta-scheduler/state.db"
    chain: Chain
    wallet: Wallet
    queue_view: Annotated[
        QueueView | None,
        Field(description="The queue view. It is served only if this table exists."),
    ] = None
