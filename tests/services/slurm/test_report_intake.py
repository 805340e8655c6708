# SPDX-License-Identifier: Apache-2.0
"""The intake of reports: which reports are stored, and which are dropped.

A node sends a report in a datagram. Slurm's job completion plugin writes a report as a line of a
spool. The intake stores a report as a hint that a Slurm job has started or ended.
"""

import json

import pytest
from tests.fakes.agent import FakeMunge, FakeReportStore, FakeSpool
from tests.fakes.store import FakeClock

from gridstead.domain.slurm.hint import Hint
from gridstead.services.slurm.report_intake import BURST, RETENTION_S, ReportIntake

NODE = "10.0.0.7"
# A report has the fields version, event, Slurm job id, uid, step, node, start time and end time.
END_REPORT = b"gridstead1 end 12 200001 batch compute1 1790000000 1790000060"
JOB_KEY = f"179188/0x{2:040x}/0x{3:064x}/abc"


class IntakeSetup:
    """A report intake with fakes.

    A datagram consists of a uid, the lifetime of a MUNGE credential in seconds, and a report.
    """

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
def setup():
    return IntakeSetup()


def completion_line(**changes):
    """Return a line of the job completion spool."""
    record = {
        "version": 1,
        "slurm_job_id": 12,
        "uid": 200001,
        "end_s": 1790000060,
        "admin_comment": JOB_KEY,
    }
    return json.dumps(record | changes)


def test_report_from_root_on_a_node_is_stored(setup):
    setup.intake.receive(b"0 30 " + END_REPORT, NODE)

    assert setup.reports.hints == [
        Hint(event="end", slurm_job_id=12, uid=200001, occurred_at=1790000060)
    ]


@pytest.mark.parametrize(
    ("datagram", "source"),
    [
        (b"0 30 " + END_REPORT, "10.0.0.8"),  # The sender is not a node.
        (b"200001 30 " + END_REPORT, NODE),  # The user is not root.
        (b"0 3600 " + END_REPORT, NODE),  # The credential is valid for too long.
        (b"garbage", NODE),
        (b"0 30 " + END_REPORT + b" more", NODE),
        (b"0 30 " + END_REPORT.replace(b"end", b"paid"), NODE),  # The event is unknown.
        (b"0 30 \xff\xfe", NODE),
        # The step is not the batch step.
        (b"0 30 " + END_REPORT.replace(b" batch ", b" extern "), NODE),
        (b"0 30 " + END_REPORT.replace(b" batch ", b" 0 "), NODE),
    ],
)
def test_invalid_datagram_is_dropped(setup, datagram, source):
    setup.intake.receive(datagram, source)
    setup.intake.tick()

    assert setup.reports.hints == []


def test_report_with_the_number_of_the_batch_step_is_stored(setup):
    setup.intake.receive(b"0 30 " + END_REPORT.replace(b" batch ", b" 4294967291 "), NODE)

    assert len(setup.reports.hints) == 1


def test_reports_are_accepted_again_after_a_flood(setup):
    for slurm_job_id in range(int(BURST) + 10):
        report = END_REPORT.replace(b" 12 ", f" {slurm_job_id} ".encode())
        setup.intake.receive(b"0 30 " + report, NODE)
    assert len(setup.reports.hints) == BURST

    setup.clock.advance(1)
    report = END_REPORT.replace(b" 12 ", b" 999999 ")
    setup.intake.receive(b"0 30 " + report, NODE)
    assert len(setup.reports.hints) == BURST + 1


def test_spool_records_are_stored_and_malformed_lines_are_rejected(setup):
    malformed_lines = [
        completion_line()[:40],
        completion_line(version=2),
        "[]",
        completion_line(slurm_job_id=None),
    ]
    line_without_job_key = completion_line(slurm_job_id=13, admin_comment=None)
    setup.spool.lines = [completion_line(), *malformed_lines, line_without_job_key]

    setup.intake.tick()

    assert setup.reports.hints == [
        Hint(event="record", slurm_job_id=12, uid=200001, occurred_at=1790000060)
    ]
    assert setup.spool.rejected == malformed_lines
    assert setup.spool.lines == []


def test_reports_older_than_a_day_are_deleted(setup):
    setup.intake.tick()

    assert setup.reports.deleted_before == setup.clock.now() - RETENTION_S
