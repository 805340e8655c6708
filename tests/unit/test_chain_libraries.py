# SPDX-License-Identifier: Apache-2.0
"""Only the chain adapter knows web3.py and the libraries beneath it.

The contracts of import-linter in pyproject.toml check the imports. These tests check that the
adapter does not pass on what it gets from web3.py.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
import typing
from pathlib import Path

import pytest

import gridstead.adapters
import gridstead.adapters.chain

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
LIBRARIES = ("web3", "requests", "urllib3", "eth_abi", "eth_account", "eth_keys", "eth_typing")
CHAIN_MODULES = [
    f"gridstead.adapters.chain.{module.name}"
    for module in pkgutil.iter_modules(gridstead.adapters.chain.__path__)
]


def import_contract():
    """Return the import-linter contract about web3.py."""
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if "web3.py" in contract["name"])
    return contract


def test_import_contract_names_every_adapter_except_the_chain():
    adapters = {
        f"gridstead.adapters.{module.name}"
        for module in pkgutil.iter_modules(gridstead.adapters.__path__)
        if module.name != "chain"
    }

    named = {name for name in import_contract()["source_modules"] if ".adapters." in name}
    assert named == adapters
    assert {"web3", "requests", "eth_abi", "eth_account"} <= set(
        import_contract()["forbidden_modules"]
    )


def public_functions(module):
    """Yield the public functions and methods that a module defines."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            functions = vars(value).items()
            yield from (
                function
                for method, function in functions
                if inspect.isfunction(function) and not method.startswith("_")
            )


@pytest.mark.parametrize("name", CHAIN_MODULES)
def test_functions_of_the_chain_adapter_return_no_types_of_web3(name):
    module = importlib.import_module(name)

    for function in public_functions(module):
        result = typing.get_type_hints(function).get("return")
        assert not any(f"{library}." in str(result) for library in LIBRARIES), function
