# SPDX-License-Identifier: Apache-2.0
"""`gridstead cvmfs mount`: the kernel reads a signed repository through FUSE."""

from __future__ import annotations

import errno
import json
import mmap
import os
import pwd
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cvmfs.tests.publisher import DAY_S
from cvmfs.tests.readers import NEWER
from cvmfs.tests.stratum0 import answer_altered
from cvmfs.tests.trees import TREE, Mode, Symlink

from gridstead.cli.main import main
from gridstead.config import load
from gridstead.errors import ConfigError
from gridstead_cvmfs.config import CvmfsClientSettings
from gridstead_cvmfs.wiring import mount as cvmfs_mount

DEADLINE_S = 20
# Python code that runs the command line `gridstead`.
COMMAND = "import sys; sys.argv[0] = 'gridstead'; from gridstead.cli.main import main; main()"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists(),
    reason="mounting needs root and FUSE",
)


def wait_until(condition):
    """Wait until a condition holds, and fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def names(folder):
    """Return the names in a folder."""
    return {path.name for path in folder.iterdir()}


@dataclass
class Mounts:
    """Runs the mount command for a repository."""

    replica_setup: object
    folder: Path
    running: list[subprocess.Popen] = field(default_factory=list)

    @property
    def mountpoint(self) -> Path:
        """The mountpoint."""
        return self.folder / "mnt"

    @property
    def log(self) -> Path:
        """The log of all commands."""
        return self.folder / "log"

    def configure(self) -> Path:
        """Write the settings and return the file."""
        config = self.folder / "cvmfs-client.toml"
        publisher, stratum0 = self.replica_setup.publisher, self.replica_setup.stratum0
        config.write_text(
            f'user = "{pwd.getpwuid(os.geteuid()).pw_name}"\n'
            f'cache_directory = "{self.folder}/cache"\nlook_every_s = 1\ntimeout_s = 2\n'
            f'[[repositories]]\nname = "{publisher.name}"\nurls = ["{stratum0.url}"]\n'
            f'public_key_files = ["{self.replica_setup.key_file}"]\n'
        )
        return config

    def start(self) -> subprocess.Popen:
        """Start a mount command."""
        self.mountpoint.mkdir(exist_ok=True)
        self.folder.chmod(0o755)
        arguments = [
            "cvmfs",
            "mount",
            self.replica_setup.publisher.name,
            str(self.mountpoint),
            "--config",
            str(self.configure()),
        ]
        command = [sys.executable, "-c", COMMAND, *arguments]
        with self.log.open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def mount(self) -> subprocess.Popen:
        """Start a mount command and wait until the repository is mounted."""
        process = self.start()
        wait_until(lambda: os.path.ismount(self.mountpoint) or process.poll() is not None)
        assert process.poll() is None, self.log.read_text()
        return process

    def log_records(self, event) -> list[dict]:
        """Return the log records of an event."""
        lines = self.log.read_text().splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record["event"] == event]

    def close(self) -> None:
        """Stop all commands."""
        for process in self.running:
            process.terminate()
            process.wait(DEADLINE_S)


@pytest.fixture
def mounts(replica_setup, folder):
    replica_setup.publisher.write_whitelist(issued=int(time.time()) - DAY_S)
    mounts = Mounts(replica_setup, folder)
    yield mounts
    mounts.close()


def test_a_mount_serves_each_revision_until_it_ends(replica_setup, mounts):
    """All checks use one mount, because each mount takes a second."""
    publish(
        replica_setup,
        {
            **TREE,
            "secret": Mode(b"for the owner\n", 0o400, uid=7, gid=8),
            "way": Symlink("bin/tool"),
        },
    )
    process = mounts.mount()

    check_contents(mounts.mountpoint)
    check_permissions(mounts.mountpoint)
    check_new_revision(replica_setup, mounts.mountpoint)
    check_altered_object(replica_setup, mounts)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert names(mounts.mountpoint) == set()


def publish(replica_setup, tree):
    """Publish a revision with a whitelist that is valid now."""
    replica_setup.publisher.publish(tree)
    replica_setup.publisher.write_whitelist(issued=int(time.time()) - DAY_S)


def check_contents(mountpoint):
    """Check the type of the file system, its names and its contents."""
    findmnt = subprocess.check_output(["findmnt", "-no", "FSTYPE", mountpoint], text=True)
    assert findmnt.strip() == "fuse.gridstead-cvmfs"
    assert names(mountpoint) == {"README", "bin", "data", "empty", "secret", "v1", "way"}
    assert (mountpoint / "way").read_bytes() == TREE["bin"]["tool"]
    assert (mountpoint / "data/large").read_bytes() == TREE["data"]["large"].content
    assert (mountpoint / "v1/deep/est/x").read_bytes() == b"deepest\n"
    assert (mountpoint / "empty").read_bytes() == b""


def check_permissions(mountpoint):
    """Check that files have their attributes, the mount is read-only, and permissions apply."""
    status = (mountpoint / "secret").stat()
    attributes = (oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink)
    assert attributes == ("0o100400", 7, 8, 1)
    assert (mountpoint / "data/one").stat().st_ino == (mountpoint / "data/two").stat().st_ino
    assert (mountpoint / "v1").stat().st_nlink == 4  # 2, plus 2 subdirectories
    with pytest.raises(OSError, match="Read-only file system"):
        (mountpoint / "README").write_bytes(b"mine")
    as_other_user = ["setpriv", "--reuid=99", "--regid=99", "--clear-groups"]
    command = [*as_other_user, "cat", mountpoint / "README", mountpoint / "secret"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    # The other user can read README but not secret.
    assert (result.stdout.encode(), result.returncode) == (TREE["README"], 1)


def check_new_revision(replica_setup, mountpoint):
    """Publish a revision, and check that open files do not change until they are closed."""
    with (
        (mountpoint / "README").open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped_content,
    ):
        publish(replica_setup, {**NEWER, "bad": b"altered on its way\n"})
        wait_until(lambda: names(mountpoint) == {"README", "new", "data", "bad"})
        assert (file.read(), mapped_content[:]) == (TREE["README"], TREE["README"])
        assert (mountpoint / "README").read_bytes() == TREE["README"]
    wait_until(lambda: (mountpoint / "README").read_bytes() == NEWER["README"])
    assert (mountpoint / "new").read_bytes() == b"only now\n"


def check_altered_object(replica_setup, mounts):
    """Check that the read of an altered object fails with EIO, is logged, and succeeds later."""
    replica_setup.stratum0.fault_for_all = answer_altered
    with pytest.raises(OSError) as failure:  # noqa: PT011 - the number is checked below
        (mounts.mountpoint / "bad").read_bytes()
    assert failure.value.errno == errno.EIO
    (record,) = mounts.log_records("access_failed")
    assert (record["path"], record["code"]) == ("/bad", "repository-untrusted")
    assert record["repository"] == replica_setup.publisher.name
    replica_setup.stratum0.fault_for_all = None
    assert (mounts.mountpoint / "bad").read_bytes() == b"altered on its way\n"


def test_a_restarted_mount_serves_its_cache_without_a_server(replica_setup, mounts):
    process, mountpoint = mounts.mount(), mounts.mountpoint
    assert (mountpoint / "README").read_bytes() == TREE["README"]
    replica_setup.stratum0.close()
    process.terminate()
    process.wait(DEADLINE_S)

    mounts.mount()

    assert (mountpoint / "README").read_bytes() == TREE["README"]
    with pytest.raises(OSError) as failure:  # noqa: PT011 - the number is checked below
        (mountpoint / "bin/tool").read_bytes()
    assert failure.value.errno == errno.EIO
    assert mounts.log_records("access_failed")[0]["code"] == "repository-unavailable"


def test_open_files_remain_readable_during_a_restart(mounts):
    process, mountpoint = mounts.mount(), mounts.mountpoint
    with (mountpoint / "data/large").open("rb") as file:
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
        mounts.mount()

        assert file.read() == TREE["data"]["large"].content
    assert (mountpoint / "data/large").read_bytes() == TREE["data"]["large"].content


def test_a_mount_command_fails_and_unmounts_after_its_server_process_was_killed(mounts):
    process = mounts.mount()
    # The server process is the only child of the mount command.
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()

    os.kill(int(children), signal.SIGKILL)

    assert process.wait(DEADLINE_S) == 1
    assert names(mounts.mountpoint) == set()


def test_a_wrong_mountpoint_is_refused(mounts):
    settings = load(CvmfsClientSettings, mounts.configure())
    (mounts.folder / "file").touch()

    for mountpoint, message in (
        (mounts.folder / "file", "not a directory"),
        (Path("/dev/shm"), "type tmpfs"),
    ):
        with pytest.raises(ConfigError, match=message):
            cvmfs_mount.mount(settings, settings.repositories[0], mountpoint)


def test_the_error_for_an_unknown_repository_lists_the_known_repositories(
    mounts, monkeypatch, capsys
):
    arguments = [
        "gridstead",
        "cvmfs",
        "mount",
        "other.example.org",
        "/mnt",
        "--config",
        str(mounts.configure()),
    ]
    monkeypatch.setattr(sys, "argv", arguments)

    with pytest.raises(SystemExit) as exit_info:
        main()

    assert exit_info.value.code == 65
    assert mounts.replica_setup.publisher.name in capsys.readouterr().err


def test_a_repository_with_an_expired_whitelist_is_not_mounted(mounts, replica_setup):
    replica_setup.publisher.write_whitelist(issued=int(time.time()) - 40 * DAY_S)

    assert mounts.start().wait(DEADLINE_S) == 69
    assert "has expired" in mounts.log.read_text()
    assert names(mounts.mountpoint) == set()
