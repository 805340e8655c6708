#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the state of the local chain as anvil reads it at its start: ``dump-state.py URL FILE``."""

import gzip
import json
import sys
import urllib.request
from pathlib import Path

TIMEOUT_S = 60


def main() -> int:
    """Ask the chain and write what it says."""
    url, file = sys.argv[1], Path(sys.argv[2])
    asked = {"jsonrpc": "2.0", "id": 1, "method": "anvil_dumpState", "params": []}
    request = urllib.request.Request(
        url, json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )  # noqa: S310 - anvil's own
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the same
        state = json.load(answer)["result"]
    file.write_bytes(gzip.decompress(bytes.fromhex(state.removeprefix("0x"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
