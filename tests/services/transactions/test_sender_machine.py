# SPDX-License-Identifier: Apache-2.0
"""The sender of transactions under random crashes, reorgs, lost pools and unreachable nodes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.fakes.account import FakeAccount
from tests.fakes.crash import Crash
from tests.fakes.store import FakeClock, MemoryOutbox
from tests.services.transactions.sender_setup import PROVIDER, HastyLedger, settlement

from gridstead.domain.jobs.lifecycle import COLD, JobState
from gridstead.domain.transactions.calls import ClaimJobs, SetRunning, Settle
from gridstead.domain.transactions.outbox import SendState
from gridstead.domain.transactions.plan import DispatchPolicy
from gridstead.errors import ChainUnavailable
from gridstead.services.transactions.sender import Sender, SenderPorts

CUSTOMERS = ["0x" + "c1" * 20, "0x" + "c2" * 20]
CONFIRMATIONS = 4
FAILPOINTS = ("transaction_stored", "transaction_sent", "receipt_seen", "outcome_stored")


class SenderMachine(RuleBasedStateMachine):
    """A provider's sender. A rule runs a tick, or changes the chain, node, clock or outbox."""

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.ledger = HastyLedger(self.clock)
        self.ledger.add_provider(PROVIDER)
        self.ledger.mine(2 * CONFIRMATIONS)
        self.outbox = MemoryOutbox(clock=self.clock)
        self.script_count = 0
        self.start()

    def start(self):
        self.account = FakeAccount(self.ledger, PROVIDER)
        ports = SenderPorts(
            clock=self.clock,
            ledger=self.ledger,
            account=self.account,
            transactions=self.outbox,
        )
        policy = DispatchPolicy(
            confirmations=CONFIRMATIONS,
            max_batch_calls=3,
            max_pending_nonces=4,
            resend_after_s=5,
            replace_after_s=20,
        )
        self.crash_at = None
        self.sender = Sender(ports, policy, failpoint=self.failpoint)

    def failpoint(self, name):
        if name == self.crash_at:
            raise Crash

    def tick(self):
        try:
            self.sender.tick()
        except ChainUnavailable:
            pass
        except Crash:
            self.start()

    def claim_jobs(self, customer, count):
        """Request jobs of a customer, match them and claim them, all in one block."""
        self.ledger.automine = False
        for _ in range(count):
            self.script_count += 1
            job = self.ledger.request(customer, script=f"script-{self.script_count}")
            self.ledger.match(job.id.number, PROVIDER)
        self.ledger.claim(PROVIDER)
        self.ledger.automine = True
        self.ledger.mine()

    @rule(customer=st.sampled_from(CUSTOMERS), count=st.integers(1, 4))
    def customer_requests_jobs(self, customer, count):
        self.claim_jobs(customer, count)

    @rule()
    def provider_claims(self):
        self.outbox.put("claim", ClaimJobs(limit=10))

    @rule(has_started=st.booleans(), has_ended=st.booleans())
    def supervisor_puts_calls(self, has_started, has_ended):
        """The supervisor puts the calls that are valid for the jobs at the newest block."""
        for job in list(self.ledger._state.jobs.values()):
            if has_started and job.state is JobState.SCHEDULED:
                call = SetRunning(job_key=job.job_key, started_at=self.clock.now())
                self.outbox.put(f"run:{job.job_key}", call)
            if has_ended and job.state in {JobState.SCHEDULED, JobState.RUNNING}:
                has_run = has_started or job.state is JobState.RUNNING
                state = JobState.FINISHED if has_run else JobState.FAILED
                self.outbox.put(f"end:{job.job_key}", settlement(job, state))

    @rule(failpoint=st.sampled_from((None, None, *FAILPOINTS)), blocks=st.integers(0, 2))
    def sender_ticks(self, failpoint, blocks):
        self.crash_at = failpoint
        self.tick()
        self.crash_at = None
        self.ledger.mine(blocks)

    @rule(max_calls=st.sampled_from((1, 2, 1000)))
    def node_refuses_large_transactions(self, max_calls):
        self.account.max_calls = max_calls

    @rule(is_hasty=st.booleans())
    def node_runs_ahead_of_its_newest_block(self, is_hasty):
        self.ledger.is_hasty = is_hasty

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def node_loses_its_pool(self):
        self.ledger.pool.clear()

    # A reorg at a lower height could revert the approval of the provider.
    @precondition(lambda self: len(self.ledger._history) > 2 * CONFIRMATIONS)
    @rule(
        depth=st.integers(1, CONFIRMATIONS),
        customer=st.sampled_from((None, *CUSTOMERS)),
        count=st.integers(1, 3),
    )
    def chain_is_reorganised(self, depth, customer, count):
        """After the reorg, new jobs may get the numbers of jobs that the reorg removed."""
        # A node that keeps its pool could mine old transactions before the sender can act. Anvil
        # drops the pool, and so does this rule.
        self.ledger.pool.clear()
        self.ledger.reorg(depth)
        if customer is not None:
            self.claim_jobs(customer, count)

    @rule()
    def endpoint_is_unreachable_for_a_tick(self):
        self.ledger.down = True
        self.tick()
        self.ledger.down = False

    @invariant()
    def no_call_reaches_another_job(self):
        assert self.ledger.mistaken_calls == []

    @invariant()
    def final_calls_stay_in_effect(self):
        for entry in self.outbox.entries():
            if entry.state is SendState.FINAL and isinstance(entry.call, SetRunning | Settle):
                job = self.ledger.job(entry.call.job_key.job_id.number)
                assert job.job_key == entry.call.job_key
                allowed_states = set(COLD)
                if isinstance(entry.call, SetRunning):
                    allowed_states.add(JobState.RUNNING)
                assert job.state in allowed_states

    def teardown(self):
        """End the last fault of the node. Then every call reaches a final state."""
        self.ledger.is_hasty = False
        for _ in range(60):
            if not self.outbox.open_entries():
                break
            self.tick()
            self.ledger.mine()
            self.clock.advance(5)
        assert self.outbox.open_entries() == ()
        self.no_call_reaches_another_job()
        self.final_calls_stay_in_effect()


SenderMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestSenderMachine = SenderMachine.TestCase
