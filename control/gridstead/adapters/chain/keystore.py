# SPDX-License-Identifier: Apache-2.0
"""Reads the address of a key file, without the Ethereum libraries, which are slow to import."""

from __future__ import annotations

import json
from pathlib import Path

from gridstead.domain.jobs.ids import parse_address
from gridstead.errors import ConfigError, InvalidInput


def keystore_address(keystore: Path) -> str:
    """Return the address in a V3 key file, lower case. The address is not encrypted.

    Raises:
        ConfigError: If the file cannot be read or has no address.
    """
    try:
        address = str(json.loads(keystore.read_text())["address"])
        return parse_address("0x" + address.removeprefix("0x"))
    except (OSError, ValueError, KeyError, TypeError, InvalidInput) as err:
        raise ConfigError(f"cannot read wallet {keystore}", detail=str(err)) from err
