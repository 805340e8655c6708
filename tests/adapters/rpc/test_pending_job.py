# SPDX-License-Identifier: Apache-2.0
"""Tests that the queue view explains why jobs wait, with the meta-scheduler and a ledger in memory.

Each test causes one reason on purpose, and reads it over HTTPS as `gridstead job why` does.
"""

import json
import ssl
from dataclasses import replace

import httpx
import pytest
from tests.fakes.certificates import Authority
from tests.fakes.ledger import CREDIT, PRICES, FakeLedger
from tests.fakes.store import FakeClock, MemoryCursor, MemoryOutbox

from gridstead.adapters.matching.pending_job import PendingJob
from gridstead.adapters.matching.queue_view import pending_job
from gridstead.domain.jobs.billing import Resources
from gridstead.domain.jobs.job import Hardware, Label
from gridstead.domain.matching.decisions import Rules
from gridstead.domain.matching.policies import BALANCED, CHEAPEST
from gridstead.errors import InvalidInput, QueueViewUnavailable, UnexpectedOutput
from gridstead.rpc.matching import QueueViewServer, Views
from gridstead.services.chain.follower import Follower
from gridstead.services.matching.meta_scheduler import MetaScheduler
from gridstead.services.matching.skipped_matches import SkippedMatches

PROVIDER = "0x" + "11" * 20
DEAR_PROVIDER = "0x" + "22" * 20
THIRD_PROVIDER = "0x" + "23" * 20
CUSTOMER = "0x" + "33" * 20
OTHER_CUSTOMER = "0x" + "44" * 20
CONFIRMATIONS = 2
NODE = Hardware(gpus_per_node=(0,), cpus_per_node=(8,), memory_per_node_mb=(49_152,))
DEAR_PRICES = replace(PRICES, cpu_per_min=2 * PRICES.cpu_per_min)
WHOLE_NODE = Resources(gpus=0, tasks=1, cpus_per_task=8, memory_per_cpu_mb=100)
HALF_NODE = replace(WHOLE_NODE, cpus_per_task=4)
# A minute of WHOLE_NODE costs 8 x (0.1 + 100 x 0.0001) credits = 0.88 credits, and 1.68 credits at
# DEAR_PROVIDER.
MINUTE_WEI = 88 * CREDIT // 100
DEAR_MINUTE_WEI = 168 * CREDIT // 100


class MatchingGrid:
    """A meta-scheduler with its queue view, and a ledger in memory."""

    def __init__(self, authority):
        self.ledger = FakeLedger(FakeClock())
        self.outbox = MemoryOutbox()
        self.ca = authority.certificate
        self._tls = authority.issue("meta-scheduler")
        self.server = None
        self.start(BALANCED)

    def start(self, policy):
        """Start the meta-scheduler and its queue view again, with a policy."""
        self.stop()
        skipped_matches = SkippedMatches(self.ledger.clock)
        service = MetaScheduler(
            self.ledger,
            Follower(self.ledger, MemoryCursor(), confirmations=CONFIRMATIONS),
            self.outbox,
            confirmations=CONFIRMATIONS,
            skipped_matches=skipped_matches,
            rules=Rules(policy=policy),
        )
        views = Views(
            matched_and_running=service.matched,
            pending=service.pending,
            explanation=lambda number: service.explanation(self.ledger.job_id(number)),
            excluded=skipped_matches.exclusions,
            metrics=str,
            keys={},
        )
        self.service = service
        self.server = QueueViewServer("localhost:0", self._tls, views)
        self.url = f"https://localhost:{self.server.start()}"

    def stop(self):
        if self.server is not None:
            self.server.stop()

    def tick(self):
        """Decide at the newest block, and mine the matches."""
        self.service.tick()
        self.ledger.deliver(self.outbox, PROVIDER)

    def run(self, job):
        """Match, claim and start a job, which then occupies its nodes."""
        self.tick()
        provider = self.ledger.job(job.id.number).provider
        self.ledger.claim(provider)
        return self.ledger.run(job.id.number)

    def explain(self, job):
        """Decide, and return the explanation of a job."""
        self.service.tick()
        return pending_job(self.url, job.id, ca=self.ca)

    def get(self, path):
        tls_context = ssl.create_default_context(cafile=self.ca)
        return httpx.get(self.url + path, verify=tls_context, trust_env=False)


@pytest.fixture
def grid(tmp_path):
    new_grid = MatchingGrid(Authority(tmp_path))
    yield new_grid
    new_grid.stop()


def request(grid, resources=WHOLE_NODE, *, customer=CUSTOMER, escrow=100 * CREDIT, **fields):
    return grid.ledger.request(customer, resources=resources, escrow=escrow, **fields)


def counts(answer):
    """Return how many providers have which obstacle."""
    return {obstacle.code: obstacle.providers for obstacle in answer.obstacles}


def nearest(answer, code):
    """Return the figures of the nearest miss: quantity, needed, available, provider."""
    (miss,) = [obstacle.nearest for obstacle in answer.obstacles if obstacle.code == code]
    return miss.quantity, miss.needed, miss.available, miss.provider


def test_no_provider_is_approved(grid):
    answer = grid.explain(request(grid))

    assert (answer.cause, answer.obstacles) == ("no-provider", [])


def test_job_is_too_large_for_every_node(grid):
    grid.ledger.add_provider(PROVIDER, hardware=replace(NODE, memory_per_node_mb=(32_768,)))
    grid.ledger.add_provider(DEAR_PROVIDER, hardware=NODE)
    resources = Resources(gpus=0, tasks=1, cpus_per_task=8, memory_per_cpu_mb=8_192)

    answer = grid.explain(request(grid, resources))

    assert (answer.cause, counts(answer)) == ("no-provider", {"too-small": 2})
    assert nearest(answer, "too-small") == ("node-memory-mb", 65_536, 49_152, DEAR_PROVIDER)


def test_providers_have_another_value_of_the_label(grid):
    for address, labels in (
        (PROVIDER, [Label(key="region", value="us")]),
        (DEAR_PROVIDER, [Label(key="region", value="us")]),
        (THIRD_PROVIDER, []),
    ):
        grid.ledger.add_provider(address, hardware=NODE, labels=labels)

    answer = grid.explain(request(grid, uses=(Label(key="region", value="eu"),)))

    assert counts(answer) == {"labels": 3}
    (label,) = answer.labels
    assert (label.requirement, label.values) == ("region=eu", ["us"])
    assert (label.other, label.missing, answer.labels_compared) == (2, 1, 3)


def test_escrow_does_not_pay_for_a_minute(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.ledger.add_provider(DEAR_PROVIDER, hardware=NODE, prices=DEAR_PRICES)
    escrow = CREDIT // 2

    answer = grid.explain(request(grid, escrow=escrow))

    assert counts(answer) == {"too-expensive": 2}
    assert nearest(answer, "too-expensive") == ("escrow-wei", MINUTE_WEI, escrow, PROVIDER)


def test_provider_refused_the_job(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    job = request(grid)
    grid.tick()
    grid.ledger.claim(PROVIDER)
    grid.ledger.refuse(job.id.number)

    answer = grid.explain(job)

    assert (answer.cause, counts(answer)) == ("no-provider", {"refused": 1})


def test_provider_is_banned(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.ledger.ban(PROVIDER)

    answer = grid.explain(request(grid))

    assert (answer.cause, counts(answer)) == ("no-provider", {"not-accepting": 1})


def test_full_provider_keeps_room_for_the_job(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    running_job = grid.run(request(grid, HALF_NODE, escrow=44 * CREDIT))  # is paid for 100 minutes
    end = running_job.started_at + 100 * 60

    answer = grid.explain(request(grid, customer=OTHER_CUSTOMER))

    assert (answer.cause, counts(answer)) == ("waits-for-provider", {"full": 1})
    assert nearest(answer, "full") == ("node-cpus", 8, 4, PROVIDER)
    start = answer.expected_start
    assert (start.provider, start.start_at, start.last_move) == (PROVIDER, end, None)


def test_delay_of_the_reservation_is_explained(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    running_job = grid.run(request(grid, escrow=88 * CREDIT))  # is paid for 100 minutes
    job = request(grid, customer=OTHER_CUSTOMER)
    start = grid.explain(job).expected_start.start_at
    grid.ledger.top_up(running_job.id.number, 88 * CREDIT)

    answer = grid.explain(job)

    move = answer.expected_start.last_move
    assert (move.from_at, move.to_at) == (start, start + 100 * 60)
    assert move.cause == f"credits were added to job {running_job.id}"


def test_room_is_reserved_for_another_job(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    running_job = grid.run(request(grid, HALF_NODE, escrow=44 * CREDIT))  # is paid for 100 minutes
    large_job = request(grid, customer=OTHER_CUSTOMER)
    grid.service.tick()
    small_job = request(grid, HALF_NODE, escrow=88 * CREDIT)  # is paid for 200 minutes

    answer = grid.explain(small_job)

    assert (answer.cause, counts(answer)) == ("waits-for-provider", {"reserved": 1})
    free_s = running_job.started_at + 100 * 60 - answer.block_time
    assert nearest(answer, "reserved") == ("free-s", 200 * 60, free_s, PROVIDER)
    assert answer.obstacles[0].nearest.reserved_for == large_job.id.slurm_job_name


def test_policy_waits_for_a_cheaper_provider(grid):
    grid.start(CHEAPEST)
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.ledger.add_provider(DEAR_PROVIDER, hardware=NODE, prices=DEAR_PRICES)
    grid.run(request(grid))

    answer = grid.explain(request(grid))

    assert counts(answer) == {"full": 1, "policy": 1}
    quantity = "price-per-min-wei"
    assert nearest(answer, "policy") == (quantity, MINUTE_WEI, DEAR_MINUTE_WEI, DEAR_PROVIDER)


def test_script_id_is_malformed(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)

    answer = grid.explain(request(grid, script="no/script"))

    assert (answer.cause, answer.obstacles) == ("malformed-script-id", [])
    assert answer.ahead is None


def test_job_with_an_open_match_is_being_matched(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)

    answer = grid.explain(request(grid))

    assert (answer.cause, answer.ahead) == ("being-matched", None)
    grid.service.tick()  # now no job waits
    assert grid.explain(grid.ledger.job(1)).cause == "being-matched"


def test_match_that_cannot_be_stored_is_explained(grid, monkeypatch):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)

    def put(*_arguments):
        raise InvalidInput("the disk is full")

    monkeypatch.setattr(grid.outbox, "put", put)
    monkeypatch.setattr(grid.outbox, "put_all", put)

    answer = grid.explain(request(grid))

    assert (answer.cause, answer.reason) == ("match-not-stored", "the disk is full")


def test_jobs_ahead_are_counted(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.run(request(grid))
    own_jobs = [request(grid, customer=OTHER_CUSTOMER) for _ in range(3)]
    other_job = request(grid)

    ahead = grid.explain(own_jobs[2]).ahead

    assert ahead.own == 2
    # CUSTOMER has used the escrow of the job that runs, OTHER_CUSTOMER nothing.
    assert grid.explain(other_job).ahead.own == 0
    assert grid.explain(own_jobs[0]).ahead.others == 0


def test_reason_in_one_line_is_that_of_the_list(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.run(request(grid))
    job = request(grid)

    answer = grid.explain(job)

    assert grid.get("/pending").json() == {job.id.slurm_job_name: answer.reason}


def test_every_key_of_the_answer_is_in_the_schema(grid):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.ledger.add_provider(DEAR_PROVIDER, hardware=NODE, labels=[Label(key="a", value="b")])
    running_job = grid.run(request(grid, uses=(Label(key="a", value="b"),)))
    job = request(grid, uses=(Label(key="a", value="b"),))
    grid.service.tick()
    grid.ledger.top_up(running_job.id.number, 88 * CREDIT)
    grid.service.tick()

    answer = grid.get(f"/pending/{job.id.slurm_job_name}")

    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    document = answer.json()
    assert document["expected_start"]["last_move"] is not None
    assert PendingJob.model_validate_json(answer.content).model_dump() == document


@pytest.mark.parametrize("name", ["", "1", "0x1", f"0x{2:064x}", f"0x{1:064x}"])
def test_job_that_is_not_pending_is_not_explained(grid, name):
    grid.ledger.add_provider(PROVIDER, hardware=NODE)
    grid.run(request(grid))
    grid.service.tick()

    assert grid.get(f"/pending/{name}").status_code == 404
    assert pending_job(grid.url, grid.ledger.job_id(1), ca=grid.ca) is None


def test_queue_view_that_does_not_answer_is_unavailable(grid):
    grid.stop()
    grid.server = None

    with pytest.raises(QueueViewUnavailable):
        pending_job(grid.url, grid.ledger.job_id(1), ca=grid.ca)


@pytest.mark.parametrize("body", ["no JSON", "[]", json.dumps({"job": "0x1"})])
def test_answer_with_an_unknown_format_is_refused(grid, monkeypatch, body):
    """Another server may listen at the URL of the queue view."""
    monkeypatch.setattr(
        "gridstead.adapters.matching.queue_view._get",
        lambda *_arguments, **_options: httpx.Response(
            200, text=body, request=httpx.Request("GET", "https://localhost")
        ),
    )

    with pytest.raises(UnexpectedOutput):
        pending_job(grid.url, grid.ledger.job_id(1), ca=grid.ca)
