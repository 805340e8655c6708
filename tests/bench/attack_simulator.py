# SPDX-License-Identifier: Apache-2.0
"""A simulation in which an attacker also cancels jobs and moves credits (attacks.py)."""

from __future__ import annotations

from dataclasses import replace

from gridstead.domain.jobs.lifecycle import JobState
from gridstead.services.simulation.simulator import _CONTRACT, Simulator


class AttackSimulator(Simulator):
    """Simulates a grid in which an attacker acts at certain times."""

    def cancel_waiting_jobs(self, wallets, *, period_s, until_s):
        """Plan to cancel all waiting jobs of some wallets in each period."""

        def cancel(_argument):
            for number, run in enumerate(self.outcome.runs):
                if run.job.customer in wallets and not run.provider and number in self._chain_jobs:
                    self._cancel(number)

        for time in range(period_s, until_s, period_s):
            self._plan(time, cancel)

    def pass_credits(self, wallets, *, period_s, until_s):
        """Plan to move the credits of a wallet to the next one at the end of each period."""

        def move(index):
            sender, receiver = (wallets[number % len(wallets)] for number in (index, index + 1))
            self._transfer(sender, receiver, self._credits[sender])

        for index in range(until_s // period_s):
            self._plan((index + 1) * period_s, move, index)

    def _cancel(self, number):
        job = self._chain_jobs.pop(number)
        self._transfer(_CONTRACT, job.customer, job.escrow)
        cancelled_job = replace(
            job, state=JobState.CANCELLED, final_cost=0, state_block=self._block()
        )
        self._matcher.set_job(
            cancelled_job, requested_block=self._requested_block(number), matched_block=0
        )
        self._matcher.forget_job(job.id, matched_block=0)
        self._plan_block()
