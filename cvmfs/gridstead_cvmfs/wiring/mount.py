# SPDX-License-Identifier: Apache-2.0
"""Wiring of gridstead cvmfs mount, which consists of two processes.

The root process opens the device, mounts and unmounts. It reads no data from a server. The server
process has no privileges. It fetches and checks files and answers the kernel. After an unmount it
runs until the file system is no longer in use, so that a restart does not break jobs.
"""

from __future__ import annotations

import importlib
import os
import pwd
import resource
import signal
import ssl
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue

from gridstead.adapters.clock import SystemClock
from gridstead.errors import ConfigError
from gridstead.wiring.loop import notify_systemd
from gridstead_cvmfs.adapters.cache import DiskCache
from gridstead_cvmfs.adapters.files import DiskFiles
from gridstead_cvmfs.adapters.objects import DiskObjects
from gridstead_cvmfs.adapters.servers import Servers
from gridstead_cvmfs.adapters.signatures import RsaSignatures
from gridstead_cvmfs.adapters.signed_file_cache import CachedSignedFiles
from gridstead_cvmfs.adapters.upstream import FetchLimits, HttpUpstream
from gridstead_cvmfs.config import CvmfsClientSettings, MountedRepository
from gridstead_cvmfs.services.client import CvmfsClient, CvmfsClientPorts

MIB = 1024 * 1024
FUSE_DEVICE = "/dev/fuse"
SUBTYPE = "gridstead-cvmfs"
FILESYSTEM_TYPE = f"fuse.{SUBTYPE}"
MOUNT_OPTIONS = (
    "ro,nosuid,nodev,allow_other,default_permissions,rootmode=40755,user_id=0,group_id=0"
)
MAX_CONNECTIONS = 16
SERVER_EXIT_TIMEOUT_S = 2.0
HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
FOLDER_MODE = 0o700


def mount(settings: CvmfsClientSettings, repository: MountedRepository, mountpoint: Path) -> int:
    """Mount a repository, wait for an unmount or a signal, and return the exit code.

    Raises:
        ConfigError: If the repository cannot be mounted on the mountpoint, or if the caller is not
            root.
    """
    if os.geteuid() != 0:
        raise ConfigError(f"cannot mount {mountpoint}", detail="not root")
    _load_fuse()
    real_mountpoint = Path(os.path.realpath(mountpoint))
    _prepare_mountpoint(real_mountpoint)
    user = _server_user(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
    device_fd = _open_device()
    ready_reader, ready_writer = os.pipe()
    mounted_reader, mounted_writer = os.pipe()
    server_pid = os.fork()
    if server_pid == 0:
        os.close(ready_reader)
        os.close(mounted_writer)
        _drop_privileges(user)
        return _serve(settings, repository, device_fd, (ready_writer, mounted_reader))
    os.close(ready_writer)
    os.close(mounted_reader)
    if not os.read(ready_reader, 1):  # the server process failed and printed an error
        return _wait_for_exit_code(server_pid)
    _mount(repository.name, device_fd, real_mountpoint)
    os.close(device_fd)
    os.write(mounted_writer, b".")
    notify_systemd("READY=1")
    return _watch(server_pid, real_mountpoint)


def _serve(
    settings: CvmfsClientSettings,
    repository: MountedRepository,
    device_fd: int,
    pipes: tuple[int, int],
) -> int:
    """Answer the kernel until the file system is no longer in use. Runs without privileges."""
    from gridstead_cvmfs.rpc.mount import serve  # noqa: PLC0415 - see _load_fuse

    ready_writer, mounted_reader = pipes
    with closing(_servers(settings, repository)) as upstream:
        client = _client(settings, repository, upstream)
        client.start()
        os.write(ready_writer, b".")
        if not os.read(mounted_reader, 1):  # the root process failed and printed an error
            return 0
        exit_codes: SimpleQueue[int] = SimpleQueue()

        def serve_requests() -> None:
            code = 1
            try:
                serve(client, device_fd)
                code = 0
            finally:
                exit_codes.put(code)

        threading.Thread(target=serve_requests, name="fuse", daemon=True).start()
        while True:
            try:
                return exit_codes.get(timeout=settings.look_every_s)
            except Empty:
                client.tick()


def _watch(server_pid: int, mountpoint: Path) -> int:
    """Wait for a signal or for the end of the server process. Then unmount.

    Returns the exit code of the program.
    """
    while True:
        if signal.sigwait(HANDLED_SIGNALS) != signal.SIGCHLD:
            break
        # ended_pid is 0 if the signal came from another child, such as the mount command.
        ended_pid, status = os.waitpid(server_pid, os.WNOHANG)
        if ended_pid:
            _unmount(mountpoint)
            return 1 if os.waitstatus_to_exitcode(status) else 0
    notify_systemd("STOPPING=1")
    _unmount(mountpoint)
    deadline = time.monotonic() + SERVER_EXIT_TIMEOUT_S
    while not os.waitpid(server_pid, os.WNOHANG)[0]:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            break
        signal.sigtimedwait((signal.SIGCHLD,), remaining_s)
    return 0


def _client(
    settings: CvmfsClientSettings, repository: MountedRepository, upstream: Servers
) -> CvmfsClient:
    folder = settings.cache_directory / repository.name
    files = DiskFiles(settings.cache_directory, repository.name)
    objects = DiskObjects(folder, min_free_bytes=0)
    with files.lock():  # creates the folders
        cache = DiskCache(folder / "content", max_bytes=settings.cache_mib * MIB)
    ports = CvmfsClientPorts(
        servers=upstream.servers,
        upstream=upstream,
        signed_files=CachedSignedFiles(files, objects),
        signatures=RsaSignatures(repository.public_key_files),
        files=files,
        objects=objects,
        cache=cache,
        clock=SystemClock(),
        monotonic=time.monotonic,
    )
    return CvmfsClient(repository.name, ports, max_catalog_bytes=settings.max_catalog_mib * MIB)


def _servers(settings: CvmfsClientSettings, repository: MountedRepository) -> Servers:
    limits = FetchLimits(
        timeout_s=settings.timeout_s,
        object_bytes=settings.max_object_mib * MIB,
        connections=MAX_CONNECTIONS,
        attempts=1,
    )
    tls = ssl.create_default_context()
    return Servers(
        (HttpUpstream(url, limits, tls=tls) for url in repository.urls), monotonic=time.monotonic
    )


def _load_fuse() -> None:
    """Load libfuse before the fork, so that the server process need not find the library."""
    try:
        importlib.import_module("gridstead_cvmfs.rpc.mount")  # while the process is root
    except OSError as error:
        hint = "Install the package fuse3."
        raise ConfigError("cannot use FUSE", detail=str(error), hint=hint) from error


def _open_device() -> int:
    try:
        return os.open(FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        hint = "Load the kernel module fuse."
        raise ConfigError(f"cannot open {FUSE_DEVICE}", detail=str(error), hint=hint) from error


def _server_user(settings: CvmfsClientSettings) -> pwd.struct_passwd:
    """Return the user of the server process, and create the user's cache folder."""
    try:
        user = pwd.getpwnam(settings.user)
    except KeyError as error:
        raise ConfigError(
            f"cannot serve as {settings.user}", detail="there is no such user"
        ) from error
    cache = settings.cache_directory
    if not cache.exists():
        cache.mkdir(mode=FOLDER_MODE, parents=True)
        os.chown(cache, user.pw_uid, user.pw_gid)
    return user


def _drop_privileges(user: pwd.struct_passwd) -> None:
    os.setsid()  # so that Ctrl-C reaches only the root process
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _prepare_mountpoint(mountpoint: Path) -> None:
    """Unmount earlier mounts of this client, and check that the mountpoint is a directory.

    Raises:
        ConfigError: If the mountpoint is not a directory, or another file system is mounted there.
    """
    mounted_types = []
    for line in Path("/proc/mounts").read_text().splitlines():
        _, target, filesystem_type, *_ = line.split(" ")
        if target == str(mountpoint):
            mounted_types.append(filesystem_type)
    if mounted_types and mounted_types[-1] != FILESYSTEM_TYPE:
        raise ConfigError(
            f"cannot mount {mountpoint}",
            detail=f"a file system of type {mounted_types[-1]} is mounted there",
        )
    for _ in mounted_types:
        _unmount(mountpoint)
    if not mountpoint.is_dir():
        raise ConfigError(f"cannot mount {mountpoint}", detail="it is not a directory")


def _mount(name: str, device_fd: int, mountpoint: Path) -> None:
    # The subtype is an option, because mount(8) of Debian 13 ignores a subtype in the type.
    command = [
        "mount",
        "-i",
        "-t",
        "fuse",
        "-o",
        f"{MOUNT_OPTIONS},subtype={SUBTYPE},fd={device_fd}",
        name,
        str(mountpoint),
    ]
    result = subprocess.run(
        command, pass_fds=(device_fd,), check=False, capture_output=True, text=True
    )
    if result.returncode:
        raise ConfigError(f"cannot mount {mountpoint}", detail=result.stderr.strip())


def _unmount(mountpoint: Path) -> None:
    subprocess.run(["umount", "--lazy", str(mountpoint)], check=False, capture_output=True)


def _wait_for_exit_code(server_pid: int) -> int:
    _, status = os.waitpid(server_pid, 0)
    return os.waitstatus_to_exitcode(status) or 1
