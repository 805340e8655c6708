# SPDX-License-Identifier: Apache-2.0
"""The settings of the commands of a grid user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from gridstead.config.tables import Chain, Peer, Wallet
from gridstead.config.values import Settings, Url


class ClientSettings(Settings):
    """The settings of the commands of a grid user."""

    chain: Chain
    wallet: Annotated[
        Wallet,
        Field(
            examples=[
                {
                    "keystore_file": "/home/me/wallet.json",
                    "password_file": "/home/me/wallet.password",
                }
            ]
        ),
    ]
    job_definitions_url: Annotated[
        Url,
        Field(
            pattern=r"^https://",
            description="GraphQL URL of the Job Definition service. It must start with https.",
            examples=["https://control:8443/graphql"],
        ),
    ]
    logger: Annotated[
        Peer, Field(description="The grid's logger.", examples=[{"endpoint": "control:8445"}])
    ]
    queue_url: Annotated[
        Url | None,
        Field(
            description="URL of the meta-scheduler's queue view.",
            examples=["https://control:8447"],
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        Field(
            description="CA of the Job Definition service and of the queue view, PEM. If not set, "
            "the CAs of the system are used.",
            examples=["/etc/gridstead/pki/ca.crt"],
        ),
    ] = None
