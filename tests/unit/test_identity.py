# SPDX-License-Identifier: Apache-2.0
"""Inside the program a job is a JobId or a JobKey; only the edges convert it."""

import ast
import json
import logging
from pathlib import Path

import pytest
import structlog

from gridstead import logs
from gridstead.domain.jobs.ids import JobId

CONTROL = Path(__file__).resolve().parents[2] / "control/gridstead"
INSIDE = ("domain", "ports", "services")
FORMS = {"slurm_name", "parse_slurm_name", "parse_job_key", "job_number", "job_numbers"}
ALLOWED = {
    "domain/jobs/ids.py": "defines the forms",
    "domain/logs/log.py": "derives a log's name and identity from a job",
    "domain/slurm/hint.py": "checks the AdminComment in the text of a plugin's report",
}


def has_other_form(path):
    """Return whether a module uses another form of a job's identity."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    return any(name_of(node) in FORMS for node in nodes) or any(map(is_number_of_a_job, nodes))


def name_of(node):
    """Return the name of an attribute, a variable or an argument."""
    return getattr(node, "attr", getattr(node, "id", getattr(node, "arg", None)))


def is_number_of_a_job(node):
    is_number = isinstance(node, ast.Attribute) and node.attr == "number"
    return is_number and name_of(node.value) in {"id", "job_id"}


def modules():
    for layer in INSIDE:
        yield from sorted((CONTROL / layer).rglob("*.py"))


def test_only_the_edges_use_other_forms_of_a_jobs_identity():
    users = {str(path.relative_to(CONTROL)) for path in modules() if has_other_form(path)}

    assert users == set(ALLOWED)


@pytest.mark.parametrize("line", ["f(job_number=7)", "job.id.number", "key.job_id.slurm_name"])
def test_other_form_is_found(tmp_path, line):
    module = tmp_path / "module.py"
    module.write_text(line)

    assert has_other_form(module)


@pytest.fixture
def service_logs():
    """Set up logging as services do, and restore the previous state afterwards."""
    loggers = [logging.getLogger(name) for name in ("grpc._common", "grpc._cython.cygrpc")]
    before = [list(logger.filters) for logger in loggers]
    configuration = structlog.get_config()
    logs.set_up("info")
    # A logger that is cached would keep this configuration in the tests that follow.
    structlog.configure(**structlog.get_config() | {"cache_logger_on_first_use": False})
    yield
    structlog.configure(**configuration)
    for logger, filters in zip(loggers, before, strict=True):
        logger.filters = filters


@pytest.mark.usefixtures("service_logs")
def test_log_lines_name_a_job_by_its_number(capsys):
    job_id = JobId(chain_id=1, contract="0x" + "5c" * 20, number=7)

    structlog.get_logger().info("job_submitted", job_id=job_id)

    assert json.loads(capsys.readouterr().out)["job_id"] == 7
