#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the state of the local chain to a file that anvil can load: ``dump-state.py URL FILE``."""

import gzip
import json
import sys
import urllib.request
from pathlib import Path

TIMEOUT_S = 60


def main() -> int:
    """Request the state from the chain and write it to the file."""
    url, file = sys.argv[1], Path(sys.argv[2])
    call = {"jsonrpc": "2.0", "id": 1, "method": "anvil_dumpState", "params": []}
    body = json.dumps(call).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - the URL of the local anvil
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - as above
        state = json.load(response)["result"]
    file.write_bytes(gzip.decompress(bytes.fromhex(state.removeprefix("0x"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
