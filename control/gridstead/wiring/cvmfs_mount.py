# SPDX-License-Identifier: Apache-2.0
"""gridstead cvmfs mount: two processes.

Root's opens the device, mounts and unmounts, and touches nothing that comes from a server. The
other one has no rights: it fetches, checks and answers the kernel. It outlives an unmount until
nobody uses the file system any more, so that a restart breaks no job.
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
from gridstead.adapters.cvmfs.cache import DiskCache
from gridstead.adapters.cvmfs.files import DiskFiles
from gridstead.adapters.cvmfs.objects import DiskObjects
from gridstead.adapters.cvmfs.servers import Servers
from gridstead.adapters.cvmfs.signatures import RsaSignatures
from gridstead.adapters.cvmfs.signed_file_cache import CachedSignedFiles
from gridstead.adapters.cvmfs.upstream import FetchLimits, HttpUpstream
from gridstead.config import CvmfsClientSettings, MountedRepository
from gridstead.errors import ConfigError
from gridstead.services.cvmfs_client import CvmfsClient, CvmfsClientPorts
from gridstead.wiring.loop import tell_systemd

MIB = 1024 * 1024
DEVICE = "/dev/fuse"
SUBTYPE = "gridstead-cvmfs"
TYPE = f"fuse.{SUBTYPE}"
OPTIONS = "ro,nosuid,nodev,allow_other,default_permissions,rootmode=40755,user_id=0,group_id=0"
CONNECTIONS = 16
PATIENCE_S = 2.0
WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
FOLDER_MODE = 0o700


def mount(settings: CvmfsClientSettings, repository: MountedRepository, mountpoint: Path) -> int:
    """Mount a repository until it is unmounted or a signal comes, and return the exit code.

    Raises:
        ConfigError: It cannot be mounted there, or by who runs this.
    """
    if os.geteuid() != 0:
        raise ConfigError(f"cannot mount {mountpoint}", detail="not root")
    try:
        importlib.import_module("gridstead.rpc.cvmfs_mount")  # before rights are gone
    except OSError as error:
        raise ConfigError(
            "cannot use FUSE", detail=str(error), hint="Install the package fuse3."
        ) from error
    place = Path(os.path.realpath(mountpoint))
    _make_room_at(place)
    user = _user(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    device = _open_device()
    (is_ready, tell_ready), (is_mounted, tell_mounted) = os.pipe(), os.pipe()
    server = os.fork()
    if server == 0:
        os.close(is_ready)
        os.close(tell_mounted)
        _give_up_rights(user)
        return _serve(settings, repository, device, (tell_ready, is_mounted))
    os.close(tell_ready)
    os.close(is_mounted)
    if not os.read(is_ready, 1):  # it has told why
        return _code_of(server)
    _mount(repository.name, device, place)
    os.close(device)
    os.write(tell_mounted, b".")
    tell_systemd("READY=1")
    return _watch(server, place)


def _serve(
    settings: CvmfsClientSettings,
    repository: MountedRepository,
    device: int,
    pipes: tuple[int, int],
) -> int:
    """Answer the kernel until nobody uses the file system; runs without rights."""
    from gridstead.rpc.cvmfs_mount import serve  # noqa: PLC0415 - it was imported before

    tell_ready, is_mounted = pipes
    with closing(_servers(settings, repository)) as upstream:
        client = _client(settings, repository, upstream)
        client.start()
        os.write(tell_ready, b".")
        if not os.read(is_mounted, 1):  # root's process has told why
            return 0
        ended: SimpleQueue[int] = SimpleQueue()

        def answer() -> None:
            code = 1
            try:
                serve(client, device)
                code = 0
            finally:
                ended.put(code)

        threading.Thread(target=answer, name="fuse", daemon=True).start()
        while True:
            try:
                return ended.get(timeout=settings.look_every_s)
            except Empty:
                client.tick()


def _watch(server: int, place: Path) -> int:
    """Wait for a signal, or for the server's end, and unmount."""
    while True:
        if signal.sigwait(WATCHED) != signal.SIGCHLD:
            break
        ended, status = os.waitpid(server, os.WNOHANG)
        if ended:
            _unmount(place)
            return os.waitstatus_to_exitcode(status) and 1
    tell_systemd("STOPPING=1")
    _unmount(place)
    until = time.monotonic() + PATIENCE_S
    while not os.waitpid(server, os.WNOHANG)[0] and (left := until - time.monotonic()) > 0:
        signal.sigtimedwait((signal.SIGCHLD,), left)
    return 0


def _client(
    settings: CvmfsClientSettings, repository: MountedRepository, upstream: Servers
) -> CvmfsClient:
    folder = settings.cache_directory / repository.name
    files = DiskFiles(settings.cache_directory, repository.name)
    objects = DiskObjects(folder, min_free_bytes=0)
    with files.lock():  # makes its folders
        cache = DiskCache(folder / "content", max_bytes=settings.cache_mib * MIB)
    ports = CvmfsClientPorts(
        servers=upstream.each,
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
        connections=CONNECTIONS,
        attempts=1,
    )
    tls = ssl.create_default_context()
    return Servers(
        (HttpUpstream(url, limits, tls=tls) for url in repository.urls), monotonic=time.monotonic
    )


def _open_device() -> int:
    try:
        return os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        hint = "Load the kernel's module fuse."
        raise ConfigError(f"cannot open {DEVICE}", detail=str(error), hint=hint) from error


def _user(settings: CvmfsClientSettings) -> pwd.struct_passwd:
    """Return who serves; the cache is theirs."""
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


def _give_up_rights(user: pwd.struct_passwd) -> None:
    os.setsid()  # Ctrl-C is for root's process
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _make_room_at(place: Path) -> None:
    """Take away what a client of ours left there.

    Raises:
        ConfigError: It is no directory, or something else is mounted there.
    """
    mounts = [line.split(" ") for line in Path("/proc/mounts").read_text().splitlines()]
    here = [fields[2] for fields in mounts if fields[1] == str(place)]
    if here and here[-1] != TYPE:
        raise ConfigError(
            f"cannot mount {place}", detail=f"a file system of type {here[-1]} is there"
        )
    for _ in here:
        _unmount(place)
    if not place.is_dir():
        raise ConfigError(f"cannot mount {place}", detail="it is not a directory")


def _mount(name: str, device: int, place: Path) -> None:
    # As an option: mount(8) of Debian 13 forgets it where it is a part of the type.
    words = [
        "mount",
        "-i",
        "-t",
        "fuse",
        "-o",
        f"{OPTIONS},subtype={SUBTYPE},fd={device}",
        name,
        str(place),
    ]
    done = subprocess.run(words, pass_fds=(device,), check=False, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"cannot mount {place}", detail=done.stderr.strip())


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


def _code_of(server: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]) or 1
