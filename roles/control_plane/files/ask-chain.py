# SPDX-License-Identifier: Apache-2.0
"""Prints the id of the chain that an endpoint serves. The endpoint may hold a key, so nothing prints it."""

import sys

import httpx

question = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
try:
    answer = httpx.post(sys.argv[1], json=question, timeout=5).json()
except (httpx.HTTPError, httpx.InvalidURL, ValueError) as err:
    sys.exit(f"no answer: {type(err).__name__}")
print(int(answer["result"], 16))
