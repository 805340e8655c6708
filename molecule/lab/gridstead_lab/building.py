# SPDX-License-Identifier: Apache-2.0
"""Build one layer of the lab's image in a separate folder.

Each build runs in its own mount namespace and pid namespace. Both end with this process. A killed
build therefore leaves only a folder, which the lab's ``down`` removes.
"""

import os
import shutil
import subprocess
from collections.abc import Set as AbstractSet
from pathlib import Path

from gridstead_lab import sources
from gridstead_lab.errors import LabError
from gridstead_lab.inputs import Inputs

HERE = Path(__file__).parent
SUITES = HERE / "other_suites.sh"
INSTALLER = HERE.parents[2] / "roles/control_plane/files/install-environment.sh"
BASE_PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "openssh-server", "procps", "python3", "python3-apt",
    "systemd-sysv",
)  # fmt: skip
LEFT_OUT = ("doc", "info", "locale", "man")
DPKG_OPTIONS = ("force-unsafe-io", *(f"path-exclude=/usr/share/{name}/*" for name in LEFT_OUT))
# Files with which this machine's pip reaches its package index; only the build sees them.
PIP_SETTINGS = ("/etc/pip.conf", "/root/.config/pip/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
# Prefixes of the environment variables that a build inherits.
INHERITED = ("pip_", "gridstead_lab", "http_proxy", "https_proxy", "no_proxy")


def recipe(kind: str) -> str:
    """Return the text of the scripts that build a layer above the base."""
    helper = INSTALLER if kind == "wheels" else SUITES
    return (HERE / f"layer_{kind}.sh").read_text() + helper.read_text()


def build(kind: str, place: Path, *, below: str, inputs: Inputs, log: Path) -> Path:
    """Build a layer and return the folder with its content.

    Args:
        kind: ``base``, ``packages``, ``archive`` or ``wheels``.
        place: Folder of the build. An existing one is replaced.
        below: The layers below, in the form of an overlay's lowerdir.
        inputs: What the image depends on.
        log: File for the output of the build.

    Raises:
        LabError: If the build fails.
    """
    if place.exists():
        shutil.rmtree(place)
    for folder in ("upper", "work", "root", "files"):
        (place / folder).mkdir(parents=True)
    match kind:
        case "base":
            _build_base(place, inputs, log)
        case "packages" | "archive":
            shutil.copy(SUITES, place / "files")
            _build_in_root(place, below, f"layer_{kind}.sh", inputs.packages, log)
        case _:
            (place / "files/requirements.txt").write_text(inputs.lock)
            shutil.copy(INSTALLER, place / "files")
            _build_in_root(place, below, "layer_wheels.sh", ("/mnt/requirements.txt",), log)
            _keep_only(
                place / "upper", {"opt", "var"}
            )  # without the mount points of the pip settings
    return place / "upper"


def _build_base(place: Path, inputs: Inputs, log: Path) -> None:
    (place / "files/lab.list").write_text("\n".join(inputs.sources) + "\n")
    options = [
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt={option}" for option in DPKG_OPTIONS),
    ]
    for name, text in inputs.apt_conf:
        file = place / "files" / name
        file.write_text(text)
        options.append(f"--aptopt={file}")
        options.append(f"--customize-hook=cp {file} $1/etc/apt/apt.conf.d/{name}")
    # As root with a umask of 022 the target folder itself must be readable by all users.
    (place / "upper").chmod(0o755)
    _contained(
        ["mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(BASE_PACKAGES)}",
         "--skip=cleanup/apt/lists", *options, sources.SUITE, str(place / "upper"),
         str(place / "files/lab.list")],
        log,
    )  # fmt: skip


def _build_in_root(
    place: Path, below: str, script: str, arguments: tuple[str, ...], log: Path
) -> None:
    """Run a script as root of an overlay over the layers below, with mounts that only it sees."""
    shutil.copy(HERE / script, place / "files" / script)
    root, overlay = place / "root", f"upperdir={place}/upper,workdir={place}/work"
    lines = [
        "set -eu",
        f"mount -t overlay overlay -o lowerdir={below},{overlay} {root}",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"mount -t tmpfs tmpfs {root}/tmp",  # noqa: S108
        f"mount --bind {place}/files {root}/mnt",
        f"touch {root}/etc/resolv.conf",
        f"mount --bind /etc/resolv.conf {root}/etc/resolv.conf",
    ]
    if script == "layer_wheels.sh":
        for setting in filter(os.path.exists, PIP_SETTINGS):
            lines.append(f"mkdir -p {root}{Path(setting).parent}; touch {root}{setting}")
            lines.append(f"mount --bind {setting} {root}{setting}")
    lines.append(f'exec chroot {root} /bin/sh /mnt/{script} "$@"')
    _contained(["sh", "-c", "\n".join(lines), script, *arguments], log)


def _keep_only(folder: Path, names: AbstractSet[str]) -> None:
    for entry in folder.iterdir():
        if entry.name in names:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _contained(argv: list[str], log: Path) -> None:
    """Run a build in its own mount and pid namespace; it ends when this process ends."""
    env = {name: os.environ[name] for name in os.environ if name.lower().startswith(INHERITED)}
    env |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    env["DEBIAN_FRONTEND"] = "noninteractive"
    with log.open("w") as out:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private",
             "--pid", "--fork", "--kill-child=KILL", "--mount-proc", *argv],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False, env=env,
        )  # fmt: skip
    if done.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        message = f"could not build the image, exit code {done.returncode}:\n{tail}"
        raise LabError(message, f"The complete output is in {log}.")
