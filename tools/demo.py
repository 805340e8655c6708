#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One job on the lab's grid, from its workflow to its payment: ``make demo``.

Everything is done with the `gridstead` command, as a person would. At the end stands a table: each
state with its time, the job's output, and where the money went.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from lab_users import CHECKOUT, Person, administrator, customer, lab_grid
from rich.console import Console
from rich.table import Table

from gridstead.cli.output import credits_text

sys.path.append(str(CHECKOUT))
from tests import billing_oracle

WORKFLOW = CHECKOUT / "examples" / "hello-world.yaml"
LOCK_CREDITS = 100
PURSE_CREDITS = 1000
REGISTRATION_S = 90

console = Console(highlight=False)


def main() -> int:
    """Run the demonstration and return an exit status."""
    grid = lab_grid()
    admin = administrator(grid)
    provider = approve_provider(admin)
    someone = customer(grid, "customer", credits_=PURSE_CREDITS)
    console.print(f"demo: customer {someone.address}")
    console.print(f"demo: provider {provider}")
    before = {who: balance(admin, who) for who in (someone.address, provider)}

    shown = subprocess.run(
        someone.command("submit", str(WORKFLOW), "--credits", str(LOCK_CREDITS), "--watch"),
        env=someone.environment, check=False,
    )  # fmt: skip
    if shown.returncode != 0:
        return shown.returncode
    number = json.loads(someone.run("job", "list", "--json").stdout)[-1]["number"]
    job = json.loads(someone.run("job", "get", str(number), "--json").stdout)
    after = {who: balance(admin, who) for who in before}

    tell_states(someone, number)
    output = someone.run("job", "logs", str(number)).stdout
    console.print("\n[bold]Output[/bold]")
    console.print(output.rstrip() or "(none)", markup=False)
    good = tell_money(job, before, after, someone.address, provider)
    if job["state"] != "FINISHED" or "Hello" not in output or not good:
        console.print("demo: the job did not go the whole way", style="bold red")
        return 1
    console.print(
        f"\ndemo: done; try it yourself: export GRIDSTEAD_CONFIG={someone.settings.relative_to(Path.cwd())}"
    )
    return 0


def approve_provider(admin: Person) -> str:
    """Wait until the supervisor has registered its cluster, approve it if need be, and return its
    address.
    """
    for _ in range(REGISTRATION_S):
        for provider in json.loads(admin.run("provider", "list", "--json").stdout):
            if "waits" in provider["state"]:
                admin.run("provider", "approve", provider["address"])
            if provider["state"] != "banned":
                return str(provider["address"])
        time.sleep(1)
    raise SystemExit(
        "demo: the supervisor registered no provider; see journalctl -u gridstead-supervisor on control"
    )


def balance(admin: Person, address: str) -> int:
    """Return a wallet's credits, wei."""
    return int(json.loads(admin.run("credit", "balance", address, "--json").stdout)["balance_wei"])


def tell_states(someone: Person, number: int) -> None:
    """Print when the job reached each state."""
    table = Table(title=f"Job {number}", title_justify="left", box=None, title_style="bold")
    table.add_column("STATE")
    table.add_column("TIME")
    table.add_column("AFTER", justify="right")
    history = json.loads(someone.run("job", "history", str(number), "--json").stdout)
    for step in history:
        at = time.strftime("%H:%M:%S", time.localtime(step["at"]))
        table.add_row(step["state"], at, f"{step['at'] - history[0]['at']} s")
    console.print()
    console.print(table)


def tell_money(job: dict, before: dict, after: dict, customer_: str, provider: str) -> bool:
    """Print who paid and got what; return whether it adds up to the lock."""
    cost, earned = job["cost_wei"], after[provider] - before[provider]
    spent = before[customer_] - after[customer_]
    fee = cost - earned
    table = Table(title="Money (credits)", title_justify="left", box=None, title_style="bold")
    table.add_column("")
    table.add_column("AMOUNT", justify="right")
    for what, wei in (
        ("locked", job["escrow_wei"]),
        ("cost", cost),
        ("  to the provider", earned),
        ("  fee of the grid", fee),
        ("refunded", job["escrow_wei"] - cost),
    ):
        table.add_row(what, credits_text(wei))
    console.print()
    console.print(table)
    return spent == cost and fee == billing_oracle.fee(cost)


if __name__ == "__main__":
    sys.exit(main())
