# SPDX-License-Identifier: Apache-2.0
"""Print the id of the chain that a service's endpoint serves: ``ask-chain.py SETTINGS``.

The endpoint may contain an API key, so no message contains the endpoint.
"""

import sys
import tomllib
from pathlib import Path

import httpx

call = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
try:
    endpoint = tomllib.loads(Path(sys.argv[1]).read_text())["chain"]["rpc_url"]
except (OSError, ValueError, KeyError) as err:
    sys.exit(f"cannot read {sys.argv[1]}: {type(err).__name__}")
try:
    response = httpx.post(endpoint, json=call, timeout=5).json()
except (httpx.HTTPError, httpx.InvalidURL, ValueError) as err:
    sys.exit(f"no answer: {type(err).__name__}")
print(int(response["result"], 16))
