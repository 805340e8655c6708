# SPDX-License-Identifier: Apache-2.0
"""Kills the services of a grid with SIGKILL at moments that a seed determines."""

from __future__ import annotations

import threading
from dataclasses import dataclass

POLL_S = 0.05
MAX_DELAY_S = 1.0
MAX_DOWN_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A kill of a service.

    Attributes:
        service: The name of the service.
        after_jobs: How many jobs must have ended before.
        delay_s: The time from the end of this job to the kill, seconds.
        down_s: The time from the kill to the new start, seconds.
    """

    service: str
    after_jobs: int
    delay_s: float
    down_s: float


def choose_kills(source, services, *, jobs, count):
    """Return random kills in the order of their moments.

    Each service gets the same number of kills, except that ``count`` may not be divisible.

    Args:
        source: The random numbers.
        services: The names of the services.
        jobs: The number of jobs of the campaign.
        count: The number of kills.
    """
    kills = []
    for number in range(count):
        kill = Kill(
            service=services[number % len(services)],
            after_jobs=source.randrange(jobs),
            delay_s=source.uniform(0, MAX_DELAY_S),
            down_s=source.uniform(0, MAX_DOWN_S),
        )
        kills.append(kill)
    return sorted(kills, key=lambda kill: kill.after_jobs)


class ServiceKiller:
    """A thread that performs kills, and starts each killed service again.

    A service may be killed while it starts. ``stop`` ends the thread after its current kill, so
    that all services run. An error ends the thread.

    Args:
        services: The processes by name.
        kills: The kills in order.
        ended_jobs: Returns how many jobs have ended.
        report_progress: A function that prints a line of progress.

    Attributes:
        done: The kills that were performed.
        errors: The error that ended the thread, if there was one.
    """

    def __init__(self, services, kills, *, ended_jobs, report_progress):
        self.done = []
        self.errors = []
        self._services = services
        self._kills = kills
        self._ended_jobs = ended_jobs
        self._report_progress = report_progress
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self):
        self._thread.start()

    def stop(self):
        self._is_stopping.set()
        self._thread.join()

    def _run(self):
        try:
            self._perform_kills()
        except BaseException as error:
            self.errors.append(error)
            raise

    def _perform_kills(self):
        for kill in self._kills:
            while self._ended_jobs() < kill.after_jobs:
                if self._is_stopping.wait(POLL_S):
                    return
            if self._is_stopping.wait(kill.delay_s):
                return
            service = self._services[kill.service]
            service.kill()
            self._report_progress(f"killed {kill.service}")
            self._is_stopping.wait(kill.down_s)
            service.start()
            self.done.append(kill)
