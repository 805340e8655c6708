# SPDX-License-Identifier: Apache-2.0
"""Plans the creation of the contracts of a set that do not exist yet."""

from __future__ import annotations

from dataclasses import replace

from gridstead.adapters.chain.node import Node
from gridstead.adapters.contracts.blueprint import PlannedContract, plan_set, salt_of_set
from gridstead.adapters.contracts.deployment_file import Record
from gridstead.adapters.contracts.factory import creation_data, has_factory
from gridstead.adapters.contracts.inspection import has_code
from gridstead.adapters.contracts.steps import TransactionStep
from gridstead.domain.contracts.setup import DeploymentOptions
from gridstead.domain.jobs.job import Block
from gridstead.errors import ConfigError


def plan_creations(
    node: Node, record: Record, options: DeploymentOptions, factory: str, head: Block
) -> tuple[Record, tuple[TransactionStep, ...]]:
    """Return the record of a set, and the creations of its missing contracts.

    Args:
        node: A node of the chain.
        record: The contents of the deployment file.
        options: The options of the deployment.
        factory: The address of the factory.
        head: A block that is older than the creations of contracts that do not exist yet.

    Raises:
        ConfigError: If a contract of the file exists at another address.
    """
    salt = salt_of_set(options.salt, admin=record.admin, supply=options.supply)
    contracts = plan_set(factory, salt, admin=record.admin, supply=options.supply)
    addresses = {contract.name: contract.address for contract in contracts}
    _check_recorded(node, record, addresses)
    missing = [contract for contract in contracts if not has_code(node, contract.address)]
    # If a contract exists already, the first block is found later, in the events.
    is_new = len(missing) == len(contracts)
    new_record = replace(
        record,
        deployer=factory,
        supply_wei=options.supply,
        salt=options.salt,
        first_block=head.number if is_new else record.first_block,
        contracts=addresses,
    )
    steps = [
        _to_step(contract, factory, creation_data(salt, contract.code)) for contract in missing
    ]
    # Without a factory the transactions would create nothing, so their gas is unknown.
    if has_factory(node, factory):
        steps = [_with_gas(node, record.admin, step) for step in steps]
    return new_record, tuple(steps)


def _check_recorded(node: Node, record: Record, addresses: dict[str, str]) -> None:
    for name, address in record.contracts.items():
        if address != addresses.get(name) and has_code(node, address):
            detail = (
                f"{name} exists at {address}, this release and these options create it at"
                f" {addresses.get(name)}"
            )
            hint = (
                "Complete the set with the release and the options that started it,"
                " or use another file to deploy a new set."
            )
            raise ConfigError("cannot complete the deployment", detail=detail, hint=hint)


def _to_step(contract: PlannedContract, factory: str, data: str) -> TransactionStep:
    return TransactionStep(
        title=f"creation of {contract.name}",
        contract=contract.name,
        to=factory,
        function="constructor",
        arguments=tuple(map(str, contract.arguments)),
        data=data,
        nonce=0,
        creates=contract.address,
    )


def _with_gas(node: Node, admin: str, step: TransactionStep) -> TransactionStep:
    transaction = {"from": admin, "to": step.to, "data": step.data}
    (answer,) = node.batch([("eth_estimateGas", [transaction])])
    return replace(step, gas=int(answer, 16)) if isinstance(answer, str) else step
