# SPDX-License-Identifier: Apache-2.0
"""Tests that Slurm's job completion plugin writes one line of JSON for each job.

The line must be valid for every text in the fields of the job.
"""

import json
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SPOOL_LINE = 'local SPOOL = "/var/spool/gridstead/jobcomp.jsonl"'
JOB = {
    "job_id": 4711,
    "name": "0x" + "00" * 31 + "2f",
    "admin_comment": "179188/0xa1/0x2f/hash",
    "user_id": 200001,
    "group_id": 100000,
    "job_state": 32773,  # FAILED (5) with the flag COMPLETING (0x8000)
    "exit_code": 768,  # the wait status of exit code 3
    "derived_ec": 0,
    "submit_time": 1700000000,
    "start_time": 1700000001,
    "end_time": 1700000009,
    "nodes": "compute[1-2]",
    "partition": "main",
    "restart_cnt": 0,
}
RECORD = {
    "version": 1,
    "slurm_job_id": 4711,
    "job_name": JOB["name"],
    "admin_comment": "179188/0xa1/0x2f/hash",
    "uid": 200001,
    "gid": 100000,
    "state": 5,
    "state_raw": 32773,
    "exit_code": 768,
    "derived_exit_code": 0,
    "submit_s": 1700000000,
    "start_s": 1700000001,
    "end_s": 1700000009,
    "nodes": "compute[1-2]",
    "partition": "main",
    "restart_count": 0,
    "truncated": False,
}
HOSTILE_NAMES = [
    b'"; os.execute("id") --',
    b"back\\slash\\",
    b"two\nlines\r\n",
    b"\x01\x02\x1f\x7f\t\b\f",
    b'"},{"version":1,"slurm_job_id":1,"x":"',
    "naïve \U0001f980".encode(),
    b"cut \xe2\x82",  # an incomplete UTF-8 character
    b"\xff\xfe\xfd",  # bytes that UTF-8 never uses
    b"\xed\xa0\x80",  # a surrogate in UTF-8
    b"\xc0\xaf",  # an overlong encoding of a slash
    b"%s%n%d%%",
    b"",
    b"n" * 1024,
]


C_STRINGS = st.binary(max_size=1200).map(lambda text: text.replace(b"\0", b""))


def lua_value(value):
    """Return a Lua literal. Numbers become floats, because Slurm passes floats."""
    if value is None:
        return "nil"
    if isinstance(value, int):
        return f"{value}.0"
    data = value if isinstance(value, bytes) else value.encode()
    return '"' + "".join(f"\\{byte:03d}" for byte in data) + '"'


def lua_members(job):
    """Return the members of a Lua table with the fields of a job."""
    return ", ".join(f"{name} = {lua_value(value)}" for name, value in job.items())


@pytest.fixture(scope="session")
def source(plugins_dir):
    """The Lua code of the plugin. The tests replace the path of its spool file."""
    text = (plugins_dir / "jobcomp" / "jobcomp.lua").read_text()
    assert text.count(SPOOL_LINE) == 1
    return text


@pytest.fixture
def spool(tmp_path):
    """The path of the spool file, which does not exist."""
    return tmp_path / "jobcomp.jsonl"


@pytest.fixture
def complete(lua, source, spool):
    """A function that writes records of jobs and returns the log. Each call must return success."""

    def run(*jobs, before="", between="", path=spool):
        plugin = source.replace(SPOOL_LINE, f"local SPOOL = {lua_value(str(path))}")
        calls_in_lua = []
        for job in jobs:
            record = f"{{ {lua_members(job)} }}"
            calls_in_lua.append(f"assert(slurm_jobcomp_log_record({record}) == slurm.SUCCESS)")
        return lua(f"{before}\ndo\n{plugin}\nend\n" + f"\n{between}\n".join(calls_in_lua))

    return run


def read_records(spool):
    """Return the records in the spool file."""
    data = spool.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


def test_a_record_without_a_state_is_logged_and_returns_success(complete, spool):
    log = complete(JOB | {"job_state": None})

    assert "log_error gridstead: jobcomp: couldn't write a record" in log
    assert "the record has no state" in log
    assert not spool.exists()


def test_failure_to_open_the_spool_file_is_logged(complete, tmp_path):
    log = complete(JOB, path=tmp_path / "absent" / "jobcomp.jsonl")

    assert "log_error gridstead: jobcomp: couldn't write a record" in log
    assert "No such file or directory" in log


def test_full_disk_is_logged(complete):
    log = complete(JOB, path="/dev/full")

    assert "No space left on device" in log


def test_plugin_returns_success_if_the_log_function_raises(complete, tmp_path):
    complete(
        JOB,
        before='slurm.log_error = function() error("no log") end',
        path=tmp_path / "absent" / "x",
    )


def test_a_record_after_a_partial_write_starts_a_new_line(complete, spool):
    # The first write stores only 40 bytes. ``restore`` ends the fault.
    partial_write = """
    local real_open = io.open
    io.open = function(path, mode)
       local file = real_open(path, mode)
       return {
          setvbuf = function() end,
          write = function(_, text) file:write(string.sub(text, 1, 40)) return true end,
          close = function() file:close() return nil, "No space left on device" end,
       }
    end
    restore = function() io.open = real_open end
    """

    complete(
        JOB,
        JOB | {"job_id": 4712},
        JOB | {"job_id": 4713},
        before=partial_write,
        between="restore()",
    )

    partial, *complete_lines = spool.read_text().splitlines()
    assert len(partial) == 40
    assert [json.loads(line)["slurm_job_id"] for line in complete_lines] == [4712, 4713]


def test_a_record_has_the_fields_of_the_job(complete, spool):
    assert complete(JOB) == ""

    assert read_records(spool) == [RECORD]


def test_records_are_appended(complete, spool):
    complete(JOB, JOB | {"job_id": 4712})
    complete(JOB | {"job_id": 4713})

    assert [record["slurm_job_id"] for record in read_records(spool)] == [4711, 4712, 4713]


def test_a_renamed_spool_file_is_created_again(complete, spool):
    complete(
        JOB,
        JOB | {"job_id": 4712},
        between=f"os.rename({lua_value(str(spool))}, {lua_value(str(spool) + '.1')})",
    )

    assert [record["slurm_job_id"] for record in read_records(spool)] == [4712]


def test_a_record_is_appended_with_one_write_call(tool, lua_program, source, spool, tmp_path):
    trace = tmp_path / "trace"
    plugin = source.replace(SPOOL_LINE, f"local SPOOL = {lua_value(str(spool))}")
    job = lua_members(JOB | {"name": b'"' * 256, "nodes": b"\x01" * 1024})
    script = tmp_path / "one.lua"
    script.write_text(
        f"slurm = {{ SUCCESS = 0 }}\n{plugin}\nslurm_jobcomp_log_record({{ {job} }})\n"
    )

    subprocess.run(
        [tool("strace"), "-o", trace, "-e", "trace=write", lua_program, script], check=True
    )

    writes = [line for line in trace.read_text().splitlines() if line.startswith("write(")]
    assert len(writes) == 1
    (record,) = read_records(spool)
    assert len(record["job_name"]) == 256


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_does_not_change_other_fields(complete, spool, name):
    complete(JOB | {"name": name})

    (record,) = read_records(spool)
    expected = RECORD | {"job_name": record["job_name"], "truncated": len(name) > 256}
    assert record == expected


@pytest.mark.parametrize("name", ['a"b\\c\n\x7f', "", "plain"])
def test_ascii_text_is_unchanged(complete, spool, name):
    complete(JOB | {"name": name})

    (record,) = read_records(spool)
    assert record["job_name"] == name


def test_a_non_ascii_byte_becomes_the_replacement_character(complete, spool):
    complete(JOB | {"name": b"na\xc3\xafve \xff"})

    (record,) = read_records(spool)
    assert record["job_name"] == "na\ufffd\ufffdve \ufffd"


def test_long_fields_are_truncated_and_marked(complete, spool):
    complete(
        JOB
        | {
            "nodes": "n" * 5000,
            "partition": "p" * 5000,
            "admin_comment": b"\x01" * 5000,
            "name": b'"' * 5000,
        }
    )

    (record,) = read_records(spool)
    assert record["truncated"]
    assert (len(record["nodes"]), len(record["admin_comment"])) == (1024, 256)
    assert spool.stat().st_size < 16384


def test_unset_numbers_are_null(complete, spool):
    complete(JOB | {"exit_code": 4294967294, "start_time": None})  # NO_VAL of Slurm

    (record,) = read_records(spool)
    assert record["exit_code"] is None
    assert record["start_s"] is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=C_STRINGS, comment=C_STRINGS, nodes=C_STRINGS)
def test_every_record_is_one_line_of_json(complete, spool, name, comment, nodes):
    spool.unlink(missing_ok=True)

    complete(JOB | {"name": name, "admin_comment": comment, "nodes": nodes})

    (record,) = read_records(spool)
    assert set(record) == set(RECORD)
