#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run one job on the lab's grid, from its workflow to its payment (``make demo``).

The program uses only the `gridstead` command, as a user does. At the end it prints the time of each
state, the output of the job, and its cost, fee and payments.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from lab_users import CHECKOUT, User, administrator, customer, lab_grid
from rich.console import Console
from rich.table import Table

from gridstead.cli.output import credits_text
from gridstead.errors import GridsteadError

sys.path.append(str(CHECKOUT))
from tests import billing_oracle

WORKFLOW = CHECKOUT / "examples" / "hello-world.yaml"
ESCROW_CREDITS = 100
BALANCE_CREDITS = 1000
SHOWN_LABELS = (
    "cpu",
    "compute.gflops",
    "network.p2p.latency.us",
    "storage.scratch.write.bw.mibps",
)
REGISTRATION_TIMEOUT_S = 300  # the first registration waits for the benchmarks

console = Console(highlight=False)


def main() -> int:
    """Run the demonstration and return an exit status."""
    grid = lab_grid()
    admin = administrator(grid)
    provider = approve_provider(admin)
    owner = customer(grid, "customer", credits_=BALANCE_CREDITS)
    console.print(f"demo: customer {owner.address}")
    console.print(f"demo: provider {provider}")
    print_measured_labels(admin, provider)
    balances_before = balances(admin, (owner.address, provider))

    submission = subprocess.run(
        owner.command("submit", str(WORKFLOW), "--credits", str(ESCROW_CREDITS), "--watch"),
        env=owner.environment,
        check=False,
    )
    if submission.returncode != 0:
        return submission.returncode
    jobs = json.loads(owner.run("job", "list", "--json").stdout)
    number = jobs[-1]["number"]
    job = json.loads(owner.run("job", "get", str(number), "--json").stdout)
    balances_after = balances(admin, balances_before)

    print_states(owner, number)
    output = owner.run("job", "logs", str(number)).stdout
    console.print("\n[bold]Output[/bold]")
    console.print(output.rstrip() or "(none)", markup=False)
    earned_wei = balances_after[provider] - balances_before[provider]
    spent_wei = balances_before[owner.address] - balances_after[owner.address]
    amounts_match = print_amounts(job, earned_wei=earned_wei, spent_wei=spent_wei)
    if job["state"] != "FINISHED" or "Hello" not in output or not amounts_match:
        console.print("demo: the job did not finish as expected", style="bold red")
        return 1
    settings = owner.settings.relative_to(Path.cwd())
    console.print(f"\ndemo: done; to use this customer: export GRIDSTEAD_CONFIG={settings}")
    return 0


def approve_provider(admin: User) -> str:
    """Wait until the provider is registered, approve it and return its address.

    Raises:
        SystemExit: If the supervisor does not register its cluster in time.
    """
    for _ in range(REGISTRATION_TIMEOUT_S):
        for provider in json.loads(admin.run("provider", "list", "--json").stdout):
            if "waits" in provider["state"]:  # "waits for approval" or "joined, change waits"
                admin.run("provider", "approve", provider["address"])
            if provider["state"] != "banned":
                return str(provider["address"])
        time.sleep(1)
    raise SystemExit(
        "demo: the supervisor has registered no provider; "
        "see journalctl -u gridstead-supervisor on control"
    )


def print_measured_labels(admin: User, address: str) -> None:
    """Print some labels that the benchmarks of the provider measured."""
    provider = json.loads(admin.run("provider", "status", address, "--json").stdout)
    labels = provider["labels"]
    for key in SHOWN_LABELS:
        console.print(f"demo: label {key} = {labels.get(key, 'not measured')}")


def balances(admin: User, addresses: Iterable[str]) -> dict[str, int]:
    """Return the credits of each wallet, in wei."""
    credits_wei = {}
    for address in addresses:
        answer = admin.run("credit", "balance", address, "--json").stdout
        credits_wei[address] = int(json.loads(answer)["balance_wei"])
    return credits_wei


def print_states(owner: User, number: int) -> None:
    """Print when the job reached each state."""
    table = Table(title=f"Job {number}", title_justify="left", box=None, title_style="bold")
    table.add_column("STATE")
    table.add_column("TIME")
    table.add_column("AFTER", justify="right")
    history = json.loads(owner.run("job", "history", str(number), "--json").stdout)
    start_s = history[0]["at"]
    for event in history:
        clock_time = time.strftime("%H:%M:%S", time.localtime(event["at"]))
        table.add_row(event["state"], clock_time, f"{event['at'] - start_s} s")
    console.print()
    console.print(table)


def print_amounts(job: dict, *, earned_wei: int, spent_wei: int) -> bool:
    """Print the cost, the fee and the payments of the job.

    Args:
        job: The output of `gridstead job get --json`.
        earned_wei: What the provider's wallet received.
        spent_wei: What the customer's wallet lost.

    Returns:
        Whether the customer paid exactly the cost and the fee has the correct rate.
    """
    cost_wei = job["cost_wei"]
    fee_wei = cost_wei - earned_wei
    table = Table(title="Money (credits)", title_justify="left", box=None, title_style="bold")
    table.add_column("")
    table.add_column("AMOUNT", justify="right")
    for title, wei in (
        ("escrow", job["escrow_wei"]),
        ("cost", cost_wei),
        ("  to the provider", earned_wei),
        ("  fee of the grid", fee_wei),
        ("refunded", job["escrow_wei"] - cost_wei),
    ):
        table.add_row(title, credits_text(wei))
    console.print()
    console.print(table)
    return spent_wei == cost_wei and fee_wei == billing_oracle.fee(cost_wei)


def run() -> int:
    """Run the demonstration, and name the command that failed or was interrupted."""
    try:
        return main()
    except subprocess.CalledProcessError as error:
        console.print(error.stderr.rstrip(), markup=False)
        console.print(f"demo: {command_text(error)} failed", style="bold red")
        return error.returncode
    except subprocess.TimeoutExpired as error:
        message = f"demo: {command_text(error)} did not end within {error.timeout:.0f} s"
        console.print(message, style="bold red")
        return 1
    except GridsteadError as error:
        console.print(f"demo: {error}", style="bold red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("demo: interrupted")
        return 130


def command_text(error: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    """Return the command of an error as a user types it."""
    return shlex.join(["gridstead", *error.cmd[1:]])


if __name__ == "__main__":
    sys.exit(run())
