# SPDX-License-Identifier: Apache-2.0
"""Places the Multicall contract on a development chain.

DeepSquare's SDK and web portal read lists of jobs through the function ``aggregate3`` at a fixed
address. No account of ours can deploy a contract to this address. Therefore the node must write
the code there, or the genesis block must contain it.
"""

from __future__ import annotations

from gridstead.adapters.chain.abi import read_document
from gridstead.adapters.chain.node import Node

# The address that is compiled into the SDK and the portal.
MULTICALL_ADDRESS = "0xad25E3e89e005EE6b1d9a4723DE82b2D591779d2"


def place_multicall(node: Node) -> bool:
    """Write the code of Multicall to its address on a development chain, if it is not there.

    Returns:
        Whether the code was written.

    Raises:
        ChainUnavailable: If the node does not answer, or the code is missing and the node is not
            anvil.
    """
    code = read_document("Multicall")["deployedBytecode"]
    if node.ask("eth_getCode", MULTICALL_ADDRESS, "latest") == code:
        return False
    node.ask("anvil_setCode", MULTICALL_ADDRESS, code)
    return True
