# SPDX-License-Identifier: Apache-2.0
"""Prints the id of the chain that a service's endpoint serves. It may hold a key, so nothing prints
it.
"""

import sys
import tomllib
from pathlib import Path

import httpx

question = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
try:
    endpoint = tomllib.loads(Path(sys.argv[1]).read_text())["chain"]["rpc_url"]
except (OSError, ValueError, KeyError) as err:
    sys.exit(f"cannot read {sys.argv[1]}: {type(err).__name__}")
try:
    answer = httpx.post(endpoint, json=question, timeout=5).json()
except (httpx.HTTPError, httpx.InvalidURL, ValueError) as err:
    sys.exit(f"no answer: {type(err).__name__}")
print(int(answer["result"], 16))
