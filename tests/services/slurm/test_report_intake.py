# SPDX-License-Identifier: Apache-2.0
"""Which reports the agent accepts."""

import json

import pytest
from tests.fakes.agent import FakeMunge, FakeReportStore, FakeSpool
from tests.fakes.store import FakeClock

from gridstead.domain.slurm.hint import Hint
from gridstead.services.slurm.report_intake import BURST, RETENTION_S, ReportIntake

NODE = "10.0.0.7"
END = b"gridstead1 end 12 200001 batch compute1 1790000000 1790000060"
JOB_KEY = f"179188/0x{2:040x}/0x{3:064x}/abc"


class Bench:
    def __init__(self):
        self.clock = FakeClock()
        self.reports = FakeReportStore()
        self.spool = FakeSpool()
        self.intake = ReportIntake(
            reports=self.reports,
            munge=FakeMunge(),
            spool=self.spool,
            sources=[NODE],
            clock=self.clock,
        )


@pytest.fixture
def bench():
    return Bench()


def completion(**changes):
    record = {
        "version": 1,
        "slurm_job_id": 12,
        "uid": 200001,
        "end_s": 1790000060,
        "admin_comment": JOB_KEY,
    }
    return json.dumps(record | changes)


def test_a_report_of_root_on_a_node_is_stored(bench):
    bench.intake.receive(b"0 30 " + END, NODE)

    assert bench.reports.hints == [
        Hint(event="end", slurm_job_id=12, uid=200001, occurred_at=1790000060)
    ]


@pytest.mark.parametrize(
    ("datagram", "source"),
    [
        (b"0 30 " + END, "10.0.0.8"),
        (b"200001 30 " + END, NODE),
        (b"0 3600 " + END, NODE),
        (b"garbage", NODE),
        (b"0 30 " + END + b" more", NODE),
        (b"0 30 " + END.replace(b"end", b"paid"), NODE),
        (b"0 30 \xff\xfe", NODE),
        (b"0 30 " + END.replace(b" batch ", b" extern "), NODE),
        (b"0 30 " + END.replace(b" batch ", b" 0 "), NODE),
    ],
)
def test_any_other_datagram_is_dropped(bench, datagram, source):
    bench.intake.receive(datagram, source)
    bench.intake.tick()

    assert bench.reports.hints == []


def test_the_batch_step_may_be_given_by_its_number(bench):
    bench.intake.receive(b"0 30 " + END.replace(b" batch ", b" 4294967291 "), NODE)

    assert len(bench.reports.hints) == 1


def test_a_flood_of_reports_is_limited_and_the_rate_recovers(bench):
    for number in range(int(BURST) + 10):
        bench.intake.receive(b"0 30 " + END.replace(b" 12 ", f" {number} ".encode()), NODE)
    assert len(bench.reports.hints) == BURST

    bench.clock.advance(1)
    bench.intake.receive(b"0 30 " + END.replace(b" 12 ", b" 999999 "), NODE)
    assert len(bench.reports.hints) == BURST + 1


def test_spool_records_are_stored_and_malformed_lines_are_rejected(bench):
    malformed = [completion()[:40], completion(version=2), "[]", completion(slurm_job_id=None)]
    bench.spool.lines = [completion(), *malformed, completion(slurm_job_id=13, admin_comment=None)]

    bench.intake.tick()

    assert bench.reports.hints == [
        Hint(event="record", slurm_job_id=12, uid=200001, occurred_at=1790000060)
    ]
    assert bench.spool.rejected == malformed
    assert bench.spool.lines == []


def test_reports_are_kept_for_a_day(bench):
    bench.intake.tick()

    assert bench.reports.forgotten_before == bench.clock.now() - RETENTION_S
