# SPDX-License-Identifier: Apache-2.0
"""The models of the contracts' functions, and calls that the model and the chain can execute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.contracts.ledger import access, constants, credit, meta_scheduler, providers
from tests.contracts.ledger.model import ContractModel

from gridstead.adapters.chain.abi import artifact

ModelFunction = Callable[..., None]


def _roles(contract: str) -> dict[str, ModelFunction]:
    return {
        "grantRole": partial(access.grant_role, contract=contract),
        "revokeRole": partial(access.revoke_role, contract=contract),
        "renounceRole": partial(access.renounce_role, contract=contract),
    }


def _ownership(contract: str) -> dict[str, ModelFunction]:
    return {
        "offerOwnership": partial(access.offer_ownership, contract=contract),
        "acceptOwnership": partial(access.accept_ownership, contract=contract),
        "transferOwnership": partial(access.transfer_ownership, contract=contract),
        "renounceOwnership": partial(access.renounce_ownership, contract=contract),
    }


_REFUSE_NON_WRITER = partial(
    access.refuse_all_accounts, contract="JobRepository", role=access.META_SCHEDULER_ROLE
)
_REFUSE_NON_METASCHEDULER = partial(
    access.refuse_all_accounts, contract="ProviderManager", role=access.CONTRACT_ROLE
)
_REFUSE_NON_OWNER = partial(access.refuse_non_owners, contract="ProviderJobQueues")
_RECORD_FUNCTIONS = (
    "create",
    "setMatched",
    "setUnmatched",
    "setClaimed",
    "setRunning",
    "setReport",
    "setEnded",
    "setCancelRequested",
    "setDelegateSpendingAuthority",
    "addTopUp",
    "takeTopUp",
)


def _setters() -> dict[str, ModelFunction]:
    functions = {}
    for name in constants.DEFAULTS:
        functions[constants.setter(name)] = partial(constants.set_constant, name=name)
    return functions


MODEL_FUNCTIONS: dict[str, dict[str, ModelFunction]] = {
    "MetaScheduler": {
        "requestNewJob": meta_scheduler.request,
        "requestNewJobWithPermit": meta_scheduler.request_with_permit,
        "cancelJob": meta_scheduler.cancel,
        "topUpJob": meta_scheduler.top_up,
        "topUpJobDelegate": meta_scheduler.top_up_delegate,
        "setDelegateSpendingAuthority": meta_scheduler.set_delegation,
        "metaSchedule": meta_scheduler.match,
        "metaScheduleAtMost": meta_scheduler.match_at_most,
        "metaScheduleMany": partial(meta_scheduler.for_each, action=meta_scheduler.match_at_most),
        "timeoutJob": meta_scheduler.time_out,
        "panicJob": meta_scheduler.panic,
        "claimNextJob": meta_scheduler.claim_next,
        "claimJobs": meta_scheduler.claim_many,
        "claimNextCancellingJob": meta_scheduler.claim_next_cancellation,
        "claimCancellations": meta_scheduler.claim_cancellations,
        "claimNextTopUpJob": meta_scheduler.claim_next_top_up,
        "claimTopUps": meta_scheduler.claim_top_ups,
        "refuseJob": meta_scheduler.refuse,
        "refuseMany": meta_scheduler.refuse_many,
        "setJobRunning": meta_scheduler.start,
        "setRunningMany": partial(meta_scheduler.for_each, action=meta_scheduler.start),
        "settleJob": meta_scheduler.settle,
        "settleMany": partial(meta_scheduler.for_each, action=meta_scheduler.settle),
        "providerSetJobStatus": meta_scheduler.set_status,
        "expireJob": meta_scheduler.expire,
        "setEnableRequestNewJob": meta_scheduler.set_open,
        "withdrawAdmin": meta_scheduler.withdraw,
        **_roles("MetaScheduler"),
    },
    "ProviderManager": {
        "register": providers.register,
        "setPrices": providers.set_prices,
        "setDraining": providers.set_draining,
        "approve": providers.approve,
        "approveRecord": providers.approve_record,
        "remove": providers.remove,
        "ban": providers.ban,
        "unban": providers.unban,
        "incJobCount": _REFUSE_NON_METASCHEDULER,
        **_roles("ProviderManager"),
    },
    "JobRepository": {
        **dict.fromkeys(_RECORD_FUNCTIONS, _REFUSE_NON_WRITER),
        **_roles("JobRepository"),
    },
    "ProviderJobQueues": {
        "push": _REFUSE_NON_OWNER,
        "pop": _REFUSE_NON_OWNER,
        **_ownership("ProviderJobQueues"),
    },
    "Constants": {**_setters(), **_ownership("Constants")},
    "Credit": {
        "transfer": credit.transfer,
        "transferFrom": credit.transfer_from,
        "approve": credit.approve,
        "increaseAllowance": credit.increase_allowance,
        "decreaseAllowance": credit.decrease_allowance,
        "mint": credit.mint,
        "permit": credit.use_permit,
        **_ownership("Credit"),
    },
}


@dataclass(frozen=True, slots=True)
class Call:
    """A contract call. The arguments have the types of the ABI.

    Attributes:
        wait: Seconds between the previous block and the block of this call.
        blocks: The number of this call's block minus that of the previous call's, at least 1.
    """

    sender: str
    contract: str
    function: str
    arguments: tuple[Any, ...] = ()
    wait: int = 0
    blocks: int = 1

    def __str__(self) -> str:
        delay = f"+{self.wait} s"
        if self.blocks > 1:
            delay += f", +{self.blocks} blocks"
        return f"{delay}: {self.sender} {self.contract}.{self.function}{describe(self.arguments)}"

    def play(self, model: ContractModel) -> tuple[str, tuple[str, ...]] | None:
        """Advance the time of the model and execute the call on the model.

        Returns the error if the model refuses the call, else None. A refused call changes nothing
        but the time.
        """
        model.now += self.wait
        model.block += self.blocks
        model.sender = self.sender
        model.events.clear()
        action = MODEL_FUNCTIONS[self.contract][self.function]
        refused = model.attempt(lambda: action(model, *self.arguments))
        return None if refused is None else refused.reason

    def data(self) -> str:
        """Return the data of the transaction as 0x and hexadecimal digits."""
        return artifact(self.contract).functions[self.function].encode(*self.arguments)


def describe(value: Any) -> str:
    """Return a short text for a value. A job id is written as ``#7``. Long texts are truncated."""
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, bytes) and len(value) == 32:
        number = int.from_bytes(value)
        return f"#{number}" if number < 2**32 else f"0x{value.hex()[:8]}.."
    text = repr(value)
    return text if len(text) < 80 else f"{text[:20]}..{text[-5:]}"
