# SPDX-License-Identifier: Apache-2.0
"""The search for secrets on the hosts of a lab, with example cgroups of version 1 and 2."""

import json
from types import SimpleNamespace

import pytest
from tests.e2e import secret_search

V1 = """\
9:memory:/gs12ab/{host}/payload/system.slice/slurmd.service/job_7/step_0
1:name=systemd:/gs12ab/{host}/payload/init.scope
0::/gs12ab/{host}/payload
"""
V2 = "0::/gs12ab.slice/gs12ab-{host}.scope/payload/system.slice/slurmstepd.scope/job_7/step_0\n"


@pytest.mark.parametrize("cgroups", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("host", ["controller", "compute1", "new-node"])
def test_a_process_belongs_to_the_host_of_its_cgroup(cgroups, host):
    assert secret_search.host_of_cgroup(cgroups.format(host=host), "gs12ab") == host


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/init.scope\n",
        "0::/gsffff.slice/gsffff-db.scope/payload\n",
        "4:memory:/gsffff/db/payload\n",
        "0::/gs12ab.slice\n",
    ],
)
def test_a_process_of_the_machine_or_another_lab_belongs_to_no_host(cgroup):
    assert secret_search.host_of_cgroup(cgroup, "gs12ab") == ""


@pytest.fixture
def make_search(monkeypatch, tmp_path):
    """Return a function that makes a search in a lab with some running hosts."""
    proc, labs = tmp_path / "proc", tmp_path / "labs"
    monkeypatch.setattr(secret_search, "PROC", proc)
    monkeypatch.setattr(secret_search, "LABS", labs)
    proc.mkdir()

    def make(hosts, running_hosts):
        state = {"prefix": "gs12ab", "hosts": {key: {} for key in hosts}}
        (tmp_path / "state.json").write_text(json.dumps(state))
        for pid, host in enumerate(running_hosts, start=100):
            _add_host(proc / str(pid), labs / "gs12ab/hosts" / host, host)
        return secret_search.SecretSearch(SimpleNamespace(folder=tmp_path), {"word": "hidden"})

    return make


def _add_host(process, disk, host):
    for name in secret_search.MEMORY_FOLDERS:
        (process / "root" / name).mkdir(parents=True)
    (process / "cgroup").write_text(V2.format(host=host))
    (process / "status").write_text("Name:\tsystemd\nNSpid:\t4711\t1\nThreads:\t1\n")
    (process / "comm").write_text("systemd\n")
    (process / "cmdline").write_text("/sbin/init\0hidden\0")
    (process / "environ").write_text("")
    (disk / secret_search.DISK_FOLDER).mkdir(parents=True)
    (disk / secret_search.DISK_FOLDER / "note").write_text("hidden")


def test_secrets_of_each_host_are_found_with_cgroup_v2(make_search, monkeypatch):
    monkeypatch.setattr(secret_search, "POLL_S", 0)
    search = make_search(["db", "login"], ["db", "login"])

    search.search_files()
    with search.watching():
        while len(search.sightings) < 4:
            pass

    places = {(sighting.kind, sighting.host) for sighting in search.sightings}
    assert places == {("file", "db"), ("file", "login"), ("cmdline", "db"), ("cmdline", "login")}


def test_the_search_in_files_fails_if_it_cannot_inspect_every_host(make_search):
    search = make_search(["db", "login"], ["db"])

    with pytest.raises(AssertionError, match="could not inspect login"):
        search.search_files()


def test_the_search_in_processes_fails_if_it_sees_no_process_of_a_host(make_search):
    search = make_search(["db"], [])

    with pytest.raises(AssertionError, match="could not inspect db"), search.watching():
        pass
