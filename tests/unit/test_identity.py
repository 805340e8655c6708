# SPDX-License-Identifier: Apache-2.0
"""Tests of how the code identifies a job.

The domain, the ports and the services identify a job by a JobId or a JobKey. The adapters and the
command line convert JobId and JobKey to other identifiers, such as the job's number or the job's
name in Slurm.
"""

import ast
import json
import logging
from pathlib import Path

import pytest
import structlog

from gridstead import logs
from gridstead.domain.jobs.ids import JobId

CONTROL = Path(__file__).resolve().parents[2] / "control/gridstead"
INNER_LAYERS = ("domain", "ports", "services")
OTHER_IDENTIFIERS = {
    "slurm_job_name",
    "parse_slurm_job_name",
    "parse_job_key",
    "job_number",
    "job_numbers",
}
EXCEPTIONS = {
    "domain/jobs/ids.py": "defines the identifiers",
    "domain/logs/log.py": "derives a log's name and identity from a job",
    "domain/slurm/hint.py": "checks the AdminComment in the text of a plugin's report",
}


def uses_other_identifier(path):
    """Return whether a module identifies a job by anything other than a JobId or a JobKey."""
    for node in ast.walk(ast.parse(path.read_text())):
        if name_of(node) in OTHER_IDENTIFIERS or is_number_of_a_job(node):
            return True
    return False


def name_of(node):
    """Return the name of an attribute, a variable or an argument."""
    return getattr(node, "attr", getattr(node, "id", getattr(node, "arg", None)))


def is_number_of_a_job(node):
    """Return whether a node is ``id.number`` or ``job_id.number``."""
    is_number = isinstance(node, ast.Attribute) and node.attr == "number"
    return is_number and name_of(node.value) in {"id", "job_id"}


def inner_modules():
    """Yield the modules of the inner layers."""
    for layer in INNER_LAYERS:
        yield from sorted((CONTROL / layer).rglob("*.py"))


def test_inner_layers_identify_a_job_by_job_id_or_job_key():
    users = set()
    for path in inner_modules():
        if uses_other_identifier(path):
            users.add(str(path.relative_to(CONTROL)))

    assert users == set(EXCEPTIONS)


@pytest.mark.parametrize("line", ["f(job_number=7)", "job.id.number", "key.job_id.slurm_job_name"])
def test_other_identifier_is_found(tmp_path, line):
    module = tmp_path / "module.py"
    module.write_text(line)

    assert uses_other_identifier(module)


@pytest.fixture
def service_logs():
    """Set up logging as services do, and restore the previous state afterwards."""
    loggers = [logging.getLogger(name) for name in ("grpc._common", "grpc._cython.cygrpc")]
    previous_filters = [list(logger.filters) for logger in loggers]
    configuration = structlog.get_config()
    logs.set_up("info")
    # A cached logger would keep this configuration in later tests.
    structlog.configure(**structlog.get_config() | {"cache_logger_on_first_use": False})
    yield
    structlog.configure(**configuration)
    for logger, filters in zip(loggers, previous_filters, strict=True):
        logger.filters = filters


@pytest.mark.usefixtures("service_logs")
def test_log_lines_contain_the_number_of_a_job(capsys):
    job_id = JobId(chain_id=1, contract="0x" + "5c" * 20, number=7)

    structlog.get_logger().info("job_submitted", job_id=job_id)

    assert json.loads(capsys.readouterr().out)["job_id"] == 7
