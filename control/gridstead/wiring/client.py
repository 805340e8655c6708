# SPDX-License-Identifier: Apache-2.0
"""Creates the adapters that the commands of a grid user need."""

from __future__ import annotations

from gridstead.adapters.chain.customer import Customer
from gridstead.adapters.chain.ledger import ChainLedger
from gridstead.adapters.chain.wallet import Wallet, lazy_wallet
from gridstead.config import ClientSettings
from gridstead.wiring.chain import open_chain


def open_customer(settings: ClientSettings) -> tuple[Wallet, Customer, ChainLedger]:
    """Return the user's wallet, the sender of the user's calls, and the reader of the contracts."""
    wallet = lazy_wallet(settings.wallet.keystore_file, settings.wallet.password_file)
    chain = open_chain(settings.chain)
    customer = Customer(chain.node, chain.contracts, wallet, first_block=chain.first_block)
    return wallet, customer, chain.ledger
