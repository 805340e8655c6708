# SPDX-License-Identifier: Apache-2.0
"""`gridstead devnet`: sets up a grid on a development chain, on which coins can be minted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridstead.adapters.chain.keystore import keystore_address
from gridstead.cli.contracts import AdminKeystore, DeploymentFile
from gridstead.cli.contracts_options import AdminPassword, RpcUrl
from gridstead.cli.options import Json
from gridstead.cli.output import credits_text, emit_result, parse_credits, print_note
from gridstead.domain.contracts.setup import DeploymentOptions
from gridstead.domain.jobs.ids import parse_address

app = typer.Typer(no_args_is_help=True)

WEI_PER_COIN = 10**18
ADMIN_COINS = 1_000_000 * WEI_PER_COIN
GAS_COINS = 1_000 * WEI_PER_COIN
SUPPLY = 1_000_000 * WEI_PER_COIN

ChainId = Annotated[int, typer.Option("--chain-id", help="Fail if the node has another chain id.")]


@app.command()
def init(
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    meta_scheduler_keystore: Annotated[
        Path,
        typer.Option("--meta-scheduler-keystore", help="Key file of the meta-scheduler's wallet."),
    ],
    deployment: DeploymentFile,
    fund_keystore: Annotated[
        list[Path],
        typer.Option(
            "--fund-keystore", help="Key file of a wallet that needs coins for gas. Repeatable."
        ),
    ],
    chain_id: ChainId = 179188,
    as_json: Json = False,
) -> None:
    """Deploy the contracts of a grid and give the services coins for gas.

    The command also places Multicall, through which clients read lists of jobs, at the address that
    is compiled into them. The command is idempotent. It prints "changed" if it changed something.
    """
    # Only these commands need this import, which takes a second.
    from gridstead.wiring.contracts import deployment as wiring  # noqa: PLC0415

    admin_files = (admin_keystore, admin_password_file)
    steps: list[str] = []

    def report_step(line: str) -> None:
        steps.append(line)
        print_note(line)

    node = wiring.check_chain(rpc_url, chain_id)
    admin_address = keystore_address(admin_keystore)
    if wiring.mint_devnet_coins(node, admin_address, minimum=ADMIN_COINS // 2, amount=ADMIN_COINS):
        report_step(f"{admin_address} has coins")
    operator = keystore_address(meta_scheduler_keystore)
    options = DeploymentOptions(operator=operator, supply=SUPPLY)
    wiring.deploy(node, admin_files, deployment, options, report=report_step, renew=True)
    wallets = list(map(keystore_address, fund_keystore))
    funded_addresses = wiring.fund(
        node, admin_files, wallets, minimum=GAS_COINS // 2, amount=GAS_COINS
    )
    for address in funded_addresses:
        report_step(f"{address} has coins for gas")
    multicall_address = wiring.place_devnet_multicall(node)
    if multicall_address:
        report_step(f"{multicall_address} has the code of Multicall")
    record = {"changed": bool(steps), "steps": steps}
    emit_result(record, "changed" if steps else "nothing to do", as_json=as_json)


@app.command()
def fund(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="Address of the wallet that receives the credits."),
    ],
    credits_: Annotated[str, typer.Argument(metavar="CREDITS", help="Number of credits to mint.")],
    rpc_url: RpcUrl,
    admin_keystore: AdminKeystore,
    admin_password_file: AdminPassword,
    contract: Annotated[str, typer.Option("--contract", help="Address of the MetaScheduler.")],
    chain_id: ChainId = 179188,
    as_json: Json = False,
) -> None:
    """Mint credits for a wallet, and give it coins for gas."""
    # Only these commands need this import, which takes a second.
    from gridstead.wiring.contracts import deployment as wiring  # noqa: PLC0415

    wallet = parse_address(address)
    amount = parse_credits(credits_)
    admin_files = (admin_keystore, admin_password_file)
    node = wiring.check_chain(rpc_url, chain_id)
    wiring.fund(node, admin_files, [wallet], minimum=GAS_COINS // 2, amount=GAS_COINS)
    wiring.mint(node, admin_files, parse_address(contract), wallet, amount)
    record = {"address": wallet, "amount_wei": amount}
    sentence = f"minted {credits_text(amount)} credits for {wallet}, which has coins for gas"
    emit_result(record, sentence, as_json=as_json)
