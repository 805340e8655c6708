# SPDX-License-Identifier: Apache-2.0
"""The meta-scheduler's file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, TickingService, Tls, Wallet
from gridstead.config.values import Endpoint


class QueueView(Tls):
    """Which jobs wait, and why, for customers."""

    listen: Annotated[
        Endpoint, Field(description="host:port to listen on.", examples=["0.0.0.0:8447"])
    ]


class MetaSchedulerSettings(TickingService):
    """gridstead meta-scheduler."""

    state_url: Annotated[str, Field(description="SQLAlchemy URL of its outbox.")] = (
        "sqlite:////var/lib/gridstead/meta-scheduler/state.db"
    )
    chain: Chain
    wallet: Wallet
    queue_view: Annotated[
        QueueView | None, Field(description="Absent: the queue view is not served.")
    ] = None
