# SPDX-License-Identifier: Apache-2.0
"""The lines that `make vm` prints while it works."""

import queue

import pytest

from gridstead_vm import progress


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 min 00 s"), (59.6, "1 min 00 s"), (1685, "28 min 05 s")],
)
def test_a_duration_has_minutes_and_seconds(seconds, expected):
    assert progress.duration(seconds) == expected


def test_a_long_step_is_reported_again_with_its_duration():
    lines = queue.Queue()
    times = iter([0, 60, 60, *range(120, 100_000, 60)])
    reports = progress.Progress(lines.put, clock=lambda: next(times), interval_s=0.001)

    with reports.step("boot"):
        assert lines.get(timeout=10) == "[1 min 00 s] boot"
        assert lines.get(timeout=10).endswith("boot: running for 1 min 00 s")
        assert lines.get(timeout=10).endswith("boot: running for 3 min 00 s")


def test_the_interval_of_the_reports_is_at_most_a_minute():
    assert progress.INTERVAL_S <= 60


def test_the_summary_has_the_finished_steps_only():
    times = iter([0, 0, 0, 75, 75, 75])
    reports = progress.Progress(lambda _: None, clock=lambda: next(times))

    with reports.step("disk"):
        pass
    with pytest.raises(OSError, match="no space"), reports.step("boot"):
        raise OSError("no space")

    assert reports.summary() == ["disk  1 min 15 s"]
