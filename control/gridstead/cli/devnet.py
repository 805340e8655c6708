# SPDX-License-Identifier: Apache-2.0
"""`gridstead devnet`: a grid on a development chain, whose coins come from nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.cli.client import Json
from gridstead.cli.contracts import AdminKeystore, DeploymentFile
from gridstead.cli.contracts_options import AdminPassword, RpcUrl
from gridstead.cli.output import credits_text, emit_done, parse_credits, tell
from gridstead.domain.ids import parse_address

app = typer.Typer(help="A grid on a development chain (anvil).", no_args_is_help=True)

COIN = 10**18
ADMIN_COINS = 1_000_000 * COIN
GAS_COINS = 1_000 * COIN
SUPPLY = 1_000_000 * COIN

ChainId = Annotated[
    int, typer.Option("--chain-id", help="EIP-155 id that the endpoint must serve.")
]


@app.command()
def init(
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    meta_scheduler_keystore: Annotated[
        Path, typer.Option("--meta-scheduler-keystore", help="Wallet that matches jobs.")
    ],
    deployment: DeploymentFile,
    fund_keystore: Annotated[
        list[Path], typer.Option("--fund-keystore", help="Wallet that needs gas; repeat it.")
    ],
    chain_id: ChainId = 179188,
    as_json: Json = False,
) -> None:
    """Deploy the contracts and pay the services' gas; prints "changed" if it did anything."""
    from gridstead.adapters.chain.wallet import keystore_address  # noqa: PLC0415 - takes a second to import
    from gridstead.wiring import deployment as wiring  # noqa: PLC0415

    admin = (admin_keystore, admin_password_file)
    steps: list[str] = []

    def note(line: str) -> None:
        steps.append(line)
        tell(line)

    node = wiring.check_chain(rpc_url, chain_id)
    if wiring.mint_devnet_coins(
        node, keystore_address(admin_keystore), least=ADMIN_COINS // 2, amount=ADMIN_COINS
    ):
        note("the administrator has coins")
    operator = keystore_address(meta_scheduler_keystore)
    order = wiring.DeploymentRequest(admin=admin, path=deployment, operator=operator, supply=SUPPLY)
    wiring.deploy(node, order, tell=note, renew=True)
    for address in wiring.fund(
        node,
        admin,
        [keystore_address(k) for k in fund_keystore],
        least=GAS_COINS // 2,
        amount=GAS_COINS,
    ):
        note(f"{address} has coins for gas")
    emit_done(
        {"changed": bool(steps), "steps": steps},
        "changed" if steps else "nothing to do",
        as_json=as_json,
    )


@app.command()
def fund(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Wallet of a customer.")],
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="New credits for it.")],
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    contract: Annotated[str, typer.Option("--contract", help="Address of the MetaScheduler.")],
    chain_id: ChainId = 179188,
    as_json: Json = False,
) -> None:
    """Give a wallet new credits, and coins for gas."""
    from gridstead.wiring import deployment as wiring  # noqa: PLC0415 - takes a second to import

    wallet, amount = parse_address(address), parse_credits(credits_)
    admin = (admin_keystore, admin_password_file)
    node = wiring.check_chain(rpc_url, chain_id)
    wiring.fund(node, admin, [wallet], least=GAS_COINS // 2, amount=GAS_COINS)
    wiring.mint(node, admin, parse_address(contract), wallet, amount)
    record = {"address": wallet, "amount_wei": amount}
    emit_done(
        record,
        f"{wallet} has {credits_text(amount)} credits more, and coins for gas",
        as_json=as_json,
    )
