# SPDX-License-Identifier: Apache-2.0
"""Tests of Slurm's job_submit plugin with the fake slurmctld ``lua/slurm.lua``.

A wallet is a user of the grid. The wallets have uids in a range and a common gid (``SITE``).
"""

from dataclasses import dataclass

import pytest

from gridstead.domain.jobs.ids import parse_job_key

SUCCESS, ERROR = "0", "-1"
ROOT, SLURM, WALLET, LOCAL_USER = 0, 64030, 200001, 1000
GID = 100000
CONTRACT = "0x" + "a1" * 20
JOB_ID = "0x" + "00" * 31 + "2f"
JOB_KEY = f"179188/{CONTRACT}/{JOB_ID}/k3J-x_9Az"
SITE = """gridstead_site = { slurm_uid = 64030, wallet_uid_min = 200001, wallet_uid_max = 999999,
   wallet_gid = 100000, extra_accounts = { { uid = 61000, gid = 61001 } } }"""


@dataclass(frozen=True)
class Response:
    """The plugin's return code, its messages to user and log, and fields of the job request."""

    code: str
    user: str
    log: str
    admin_comment: str
    comment: str


@pytest.fixture(scope="session")
def source(plugins_dir):
    """The Lua code of the plugin."""
    return (plugins_dir / "job_submit" / "job_submit.lua").read_text()


@pytest.fixture(scope="session")
def call_plugin(lua, source):
    """A function that calls the plugin in Lua and returns the response.

    The argument is the Lua code of the call. In this code, ``request`` is the job's description.
    """

    def run(call, *, request="{}", prelude="", plugin=source, site=SITE):
        parts = (
            site,
            f"do\n{plugin}\nend",
            prelude,
            f"local request = {request}",
            f"local code = {call}",
            "print('code ' .. string.format('%d', code))",
            "print('admin_comment ' .. tostring(rawget(request, 'admin_comment')))",
            "print('comment ' .. tostring(rawget(request, 'comment')))",
        )
        values = {"log_user": "", "log_error": ""}
        for line in lua("\n".join(parts)).splitlines():
            word, _, value = line.partition(" ")
            values[word] = value
        return Response(
            values["code"],
            values["log_user"],
            values["log_error"],
            values["admin_comment"],
            values["comment"],
        )

    return run


@pytest.fixture(scope="session")
def submit(call_plugin):
    """A function that submits a job. The ids are Lua floats, because Slurm passes floats."""

    def run(*, caller, uid, gid, admin_comment=None, comment=None, **others):
        texts = ""
        for name, value in (("admin_comment", admin_comment), ("comment", comment)):
            if value is not None:
                texts += f', {name} = "{value}"'
        request = f"{{ user_id = {uid}.0, group_id = {gid}.0{texts} }}"
        return call_plugin(
            f"slurm_job_submit(request, {{}}, {caller}.0)", request=request, **others
        )

    return run


@pytest.fixture(scope="session")
def modify(call_plugin):
    """A function that modifies a job."""

    def run(caller, **others):
        return call_plugin(f"slurm_job_modify(request, {{}}, {{}}, {caller})", **others)

    return run


@pytest.mark.parametrize("caller", [200001, 555555, 999999])
def test_wallet_cannot_submit_even_with_a_job_key(submit, caller):
    response = submit(caller=caller, uid=caller, gid=GID, admin_comment=JOB_KEY)

    assert response.code == ERROR
    assert "through the grid only" in response.user


@pytest.mark.parametrize("caller", [1, LOCAL_USER, 61000, 200000, 1000000, 65534])
def test_caller_that_is_not_root_or_slurm_cannot_submit(submit, caller):
    assert submit(caller=caller, uid=caller, gid=GID, comment=JOB_KEY).code == ERROR


@pytest.mark.parametrize("caller", [ROOT, SLURM])
@pytest.mark.parametrize("uid", [0, SLURM, LOCAL_USER, 200000, 1000000, 4294967294])
def test_uid_outside_the_range_of_the_wallets_is_refused(submit, caller, uid):
    response = submit(caller=caller, uid=uid, gid=GID, admin_comment=JOB_KEY)

    assert response.code == ERROR
    assert f"cannot submit for uid {uid}" in response.user


@pytest.mark.parametrize("caller", [ROOT, SLURM])
@pytest.mark.parametrize("gid", [0, SLURM, 99999, 100001, 4294967294])
def test_gid_that_is_not_the_gid_of_the_wallets_is_refused(submit, caller, gid):
    response = submit(caller=caller, uid=WALLET, gid=gid, admin_comment=JOB_KEY)

    assert response.code == ERROR
    assert f"cannot submit for gid {gid}" in response.user


BAD_JOB_KEYS = [
    None,
    "",
    "paid",
    JOB_KEY.upper().replace("X", "x"),
    JOB_KEY.replace("179188", ""),
    JOB_KEY.replace("179188", "-1"),
    JOB_KEY.replace("a1", "g1"),
    JOB_KEY.replace(CONTRACT, CONTRACT + "0"),
    JOB_KEY.replace(CONTRACT, CONTRACT[:-1]),
    JOB_KEY.replace(JOB_ID, JOB_ID + "0"),
    JOB_KEY.replace(JOB_ID, JOB_ID[:-1]),
    JOB_KEY.removesuffix("k3J-x_9Az"),
    JOB_KEY + " and more",
    JOB_KEY + "é",
    " " + JOB_KEY,
    JOB_KEY + ".",
    JOB_KEY + "/more",
    JOB_KEY + "k" * 23,  # the script id is longer than 31 characters
    JOB_KEY.replace("179188", "1" * 21),  # the chain id is longer than 20 digits
]


@pytest.mark.parametrize("text", [text for text in BAD_JOB_KEYS if text is not None])
def test_supervisor_rejects_the_job_keys_that_the_plugin_refuses(text):
    assert parse_job_key(text) is None


@pytest.mark.parametrize(
    "job_key", [JOB_KEY, JOB_KEY + "k" * 22, JOB_KEY.replace("179188", "9" * 20)]
)
def test_plugin_and_supervisor_accept_the_same_job_keys(submit, job_key):
    assert parse_job_key(job_key) is not None
    assert submit(caller=SLURM, uid=WALLET, gid=GID, admin_comment=job_key).code == SUCCESS


@pytest.mark.parametrize("comment", BAD_JOB_KEYS)
def test_a_comment_without_a_job_key_is_refused(submit, comment):
    response = submit(caller=ROOT, uid=WALLET, gid=GID, comment=comment)

    assert response.code == ERROR
    assert "must carry the job key" in response.user


@pytest.mark.parametrize("admin_comment", BAD_JOB_KEYS)
def test_an_admin_comment_without_a_job_key_is_refused(submit, admin_comment):
    assert submit(caller=SLURM, uid=WALLET, gid=GID, admin_comment=admin_comment).code == ERROR


def test_invalid_admin_comment_is_not_replaced_by_a_valid_comment(submit):
    response = submit(caller=ROOT, uid=WALLET, gid=GID, admin_comment="mine", comment=JOB_KEY)

    assert response.code == ERROR
    assert response.admin_comment == "mine"


@pytest.mark.parametrize("caller", [ROOT, SLURM])
@pytest.mark.parametrize(("uid", "gid"), [(61000, 0), (61000, GID), (61001, 61001)])
def test_extra_account_with_another_gid_is_refused(submit, caller, uid, gid):
    assert submit(caller=caller, uid=uid, gid=gid).code == ERROR


@pytest.mark.parametrize("caller", [ROOT, SLURM])
def test_extra_account_is_accepted_without_a_job_key(submit, caller):
    assert submit(caller=caller, uid=61000, gid=61001).code == SUCCESS


def test_extra_account_may_submit_its_own_jobs(submit):
    assert submit(caller=61000, uid=61000, gid=61001).code == SUCCESS


@pytest.mark.parametrize(
    ("caller", "uid", "gid"),
    [(61000, WALLET, GID), (61000, 61000, 0), (61000, 0, 0), (WALLET, 61000, 61001)],
)
def test_extra_account_may_submit_nothing_else_and_no_wallet_in_its_name(submit, caller, uid, gid):
    assert submit(caller=caller, uid=uid, gid=gid, comment=JOB_KEY).code == ERROR


@pytest.mark.parametrize("caller", [ROOT, SLURM])
@pytest.mark.parametrize("uid", [200001, 999999])
def test_a_job_key_in_the_admin_comment_is_accepted_unchanged(submit, caller, uid):
    response = submit(caller=caller, uid=uid, gid=GID, admin_comment=JOB_KEY, comment="a note")

    assert (response.code, response.admin_comment, response.comment) == (SUCCESS, JOB_KEY, "a note")
    assert (response.user, response.log) == ("", "")


def test_job_key_in_the_comment_becomes_the_admin_comment(submit):
    response = submit(caller=ROOT, uid=WALLET, gid=GID, comment=JOB_KEY)

    assert (response.code, response.admin_comment, response.comment) == (SUCCESS, JOB_KEY, "")


def test_default_ids_apply_without_site_settings(submit):
    assert submit(caller=SLURM, uid=WALLET, gid=GID, admin_comment=JOB_KEY, site="").code == SUCCESS
    assert submit(caller=SLURM, uid=61000, gid=61001, site="").code == ERROR


@pytest.mark.parametrize("caller", [WALLET, 999999, LOCAL_USER, 61000, "nil", "{}", '"0"', "0 / 0"])
def test_caller_that_is_not_root_or_slurm_cannot_modify(modify, caller):
    response = modify(caller)

    assert response.code == ERROR
    assert "cannot be modified" in response.user


@pytest.mark.parametrize("caller", ["0.0", "64030.0", "64030"])
def test_root_and_slurm_can_modify(modify, caller):
    assert modify(caller).code == SUCCESS


# A request whose fields raise an error when they are read.
RAISING = 'setmetatable({}, { __index = function(_, name) error("no " .. name) end })'
UNREADABLE_REQUESTS = [
    RAISING,
    "{}",
    "nil",
    "7",
    '{ user_id = "x" }',
    "{ user_id = {}, group_id = 100000 }",
]


@pytest.mark.parametrize("request_text", UNREADABLE_REQUESTS)
@pytest.mark.parametrize("caller", ["0", "64030"])
def test_an_unreadable_request_is_an_error(call_plugin, request_text, caller):
    response = call_plugin(f"slurm_job_submit({request_text}, nil, {caller})")

    assert response.code == ERROR
    assert "the request is refused, because it could not be checked" in response.user
    assert "gridstead: job_submit: couldn't check a request" in response.log


def test_a_read_only_request_is_an_error(call_plugin):
    request = f'setmetatable({{ user_id = {WALLET}, group_id = {GID}, comment = "{JOB_KEY}" }},'
    request += ' { __newindex = function() error("read only") end })'

    assert call_plugin("slurm_job_submit(request, nil, 0)", request=request).code == ERROR


@pytest.mark.parametrize("call", ["slurm_job_submit()", "slurm_job_modify()"])
def test_a_call_with_missing_arguments_is_an_error(call_plugin, call):
    assert call_plugin(call).code == ERROR


@pytest.mark.parametrize(
    "call", ["slurm_job_submit(request, nil, 0)", "slurm_job_modify(request, nil, nil, 1000)"]
)
def test_call_returns_an_error_if_the_log_functions_raise(call_plugin, call):
    raising = 'slurm.log_user = function() error("no log") end\nslurm.log_error = slurm.log_user'

    assert call_plugin(call, request=RAISING, prelude=raising).code == ERROR


@pytest.mark.parametrize(
    "call", ["slurm_job_submit(request, nil, 0)", "slurm_job_modify(request, nil, nil, 1000)"]
)
def test_call_returns_an_error_if_the_log_functions_are_missing(call_plugin, call):
    assert call_plugin(call, request=RAISING, prelude="slurm = nil").code == ERROR


@pytest.mark.parametrize(
    "body",
    [
        'error("a bug")',
        "error()",
        "error({})",
        "return",
        "return nil",
        "return true",
        "return 0",
        "return SUCCESS",
    ],
)
def test_a_bug_in_the_plugin_is_an_error_for_every_caller(call_plugin, source, body):
    broken_source = source
    for function_head in (
        "local function check_submission(request, caller_uid)",
        "local function check_modification(caller_uid)",
    ):
        assert function_head in broken_source
        broken_source = broken_source.replace(function_head, f"{function_head}\n   do {body} end")

    request = f'{{ user_id = {WALLET}, group_id = {GID}, admin_comment = "{JOB_KEY}" }}'
    for caller in (ROOT, SLURM, WALLET):
        for call in (
            f"slurm_job_submit(request, nil, {caller})",
            f"slurm_job_modify(request, nil, nil, {caller})",
        ):
            assert call_plugin(call, request=request, plugin=broken_source).code == ERROR


def test_endless_recursion_is_an_error(call_plugin, source):
    head = "local function check_modification(caller_uid)"
    recursive = source.replace(
        head, f"{head}\n   local function deeper() return 1 + deeper() end\n   deeper()"
    )

    assert call_plugin("slurm_job_modify(nil, nil, nil, 0)", plugin=recursive).code == ERROR
