# SPDX-License-Identifier: Apache-2.0
"""The job completion plugin: one line of JSON per record, whatever the names say."""

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
    "job_state": 32773,
    "exit_code": 768,
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
    b"cut \xe2\x82",
    b"\xff\xfe\xfd",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"%s%n%d%%",
    b"",
    b"n" * 1024,
]


C_STRINGS = st.binary(max_size=1200).map(lambda text: text.replace(b"\0", b""))


def lua_value(value):
    if value is None:
        return "nil"
    if isinstance(value, int):
        return f"{value}.0"
    return (
        '"'
        + "".join(
            f"\\{byte:03d}" for byte in (value if isinstance(value, bytes) else value.encode())
        )
        + '"'
    )


@pytest.fixture(scope="session")
def source(plugins_dir):
    text = (plugins_dir / "jobcomp" / "jobcomp.lua").read_text()
    assert text.count(SPOOL_LINE) == 1
    return text


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "jobcomp.jsonl"


@pytest.fixture
def complete(lua, source, spool):
    """Write records of jobs and return what the log got; every call must answer success."""

    def run(*jobs, before="", between="", path=spool):
        plugin = source.replace(SPOOL_LINE, f"local SPOOL = {lua_value(str(path))}")
        calls = []
        for job in jobs:
            members = ", ".join(f"{name} = {lua_value(value)}" for name, value in job.items())
            calls.append(f"assert(slurm_jobcomp_log_record({{ {members} }}) == slurm.SUCCESS)")
        return lua(f"{before}\ndo\n{plugin}\nend\n" + f"\n{between}\n".join(calls))

    return run


def lines(spool):
    data = spool.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


def test_record_without_a_state_is_logged_and_success_to_slurm(complete, spool):
    log = complete(JOB | {"job_state": None})

    assert "log_error gridstead: jobcomp: couldn't write a record" in log
    assert "the record has no state" in log
    assert not spool.exists()


def test_spool_that_cannot_be_opened_is_logged(complete, tmp_path):
    log = complete(JOB, path=tmp_path / "absent" / "jobcomp.jsonl")

    assert "log_error gridstead: jobcomp: couldn't write a record" in log
    assert "No such file or directory" in log


def test_full_disk_is_logged(complete):
    log = complete(JOB, path="/dev/full")

    assert "No space left on device" in log


def test_raising_log_is_success_to_slurm(complete, tmp_path):
    complete(
        JOB,
        before='slurm.log_error = function() error("no log") end',
        path=tmp_path / "absent" / "x",
    )


def test_line_after_a_torn_one_stands_alone(complete, spool):
    break_off = """
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
        JOB, JOB | {"job_id": 4712}, JOB | {"job_id": 4713}, before=break_off, between="restore()"
    )

    torn, *whole = spool.read_text().splitlines()
    assert len(torn) == 40
    assert [json.loads(line)["slurm_job_id"] for line in whole] == [4712, 4713]


def test_record_holds_the_job(complete, spool):
    assert complete(JOB) == ""

    assert lines(spool) == [RECORD]


def test_records_are_appended(complete, spool):
    complete(JOB, JOB | {"job_id": 4712})
    complete(JOB | {"job_id": 4713})

    assert [record["slurm_job_id"] for record in lines(spool)] == [4711, 4712, 4713]


def test_spool_that_was_renamed_away_is_made_anew(complete, spool):
    complete(
        JOB,
        JOB | {"job_id": 4712},
        between=f"os.rename({lua_value(str(spool))}, {lua_value(str(spool) + '.1')})",
    )

    assert [record["slurm_job_id"] for record in lines(spool)] == [4712]


def test_record_is_appended_by_one_write(tool, lua_program, source, spool, tmp_path):
    trace = tmp_path / "trace"
    plugin = source.replace(SPOOL_LINE, f"local SPOOL = {lua_value(str(spool))}")
    job = ", ".join(
        f"{name} = {lua_value(value)}"
        for name, value in (JOB | {"name": b'"' * 256, "nodes": b"\x01" * 1024}).items()
    )
    script = tmp_path / "one.lua"
    script.write_text(
        f"slurm = {{ SUCCESS = 0 }}\n{plugin}\nslurm_jobcomp_log_record({{ {job} }})\n"
    )

    subprocess.run(
        [tool("strace"), "-o", trace, "-e", "trace=write", lua_program, script], check=True
    )

    writes = [line for line in trace.read_text().splitlines() if line.startswith("write(")]
    assert len(writes) == 1
    assert [len(record["job_name"]) for record in lines(spool)] == [256]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_name_stays_inside_its_string(complete, spool, name):
    complete(JOB | {"name": name})

    (record,) = lines(spool)
    whole = RECORD | {"job_name": record["job_name"], "truncated": len(name) > 256}
    assert whole == record


@pytest.mark.parametrize("name", ['a"b\\c\n\x7f', "", "plain"])
def test_text_comes_back_as_it_was(complete, spool, name):
    complete(JOB | {"name": name})

    assert [name] == [record["job_name"] for record in lines(spool)]


def test_byte_beyond_ascii_becomes_the_replacement_character(complete, spool):
    complete(JOB | {"name": b"na\xc3\xafve \xff"})

    assert [record["job_name"] for record in lines(spool)] == ["na\ufffd\ufffdve \ufffd"]


def test_long_fields_are_cut_and_say_so(complete, spool):
    complete(
        JOB
        | {
            "nodes": "n" * 5000,
            "partition": "p" * 5000,
            "admin_comment": b"\x01" * 5000,
            "name": b'"' * 5000,
        }
    )

    (record,) = lines(spool)
    assert record["truncated"]
    assert (len(record["nodes"]), len(record["admin_comment"])) == (1024, 256)
    assert spool.stat().st_size < 16384


def test_unset_numbers_are_null(complete, spool):
    complete(JOB | {"exit_code": 4294967294, "start_time": None})

    (record,) = lines(spool)
    assert record["exit_code"] is None
    assert record["start_s"] is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=C_STRINGS, comment=C_STRINGS, nodes=C_STRINGS)
def test_every_record_is_one_line_of_json(complete, spool, name, comment, nodes):
    spool.unlink(missing_ok=True)

    complete(JOB | {"name": name, "admin_comment": comment, "nodes": nodes})

    (record,) = lines(spool)
    assert set(RECORD) == set(record)
