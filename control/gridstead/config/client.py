# SPDX-License-Identifier: Apache-2.0
"""The file of a grid user's command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, Peer, Wallet
from gridstead.config.values import Settings, Url


class ClientSettings(Settings):
    """The command line of a grid user."""

    chain: Chain
    wallet: Wallet
    job_definitions_url: Annotated[
        Url,
        Field(
            pattern=r"^https://",
            description="GraphQL address.",
            examples=["https://control:8443/graphql"],
        ),
    ]
    logger: Peer
    queue_url: Annotated[
        Url | None, Field(description="Address of the meta-scheduler's queue view.")
    ] = None
    ca_file: Annotated[
        Path | None, Field(description="PEM of a CA to trust beside the system's.")
    ] = None
