# SPDX-License-Identifier: Apache-2.0
"""The lab's image: read-only layers, cached by the hash of what went into them.

``base`` is a bare Debian, ``packages`` what the roles install, ``wheels`` the Python packages of
the control plane. A plain image has ``archive`` in place of ``packages``: the same, fetched and not
installed. A layer is built in a folder of its own and gets its name by one rename at the
end: what has the name is complete. All mounts of a build live in a mount namespace of the build and
all its processes in a pid namespace, which end with this process, so a killed build leaves only a
folder, which the lab's ``down`` removes.
"""

import hashlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import commands, sources
from gridstead_lab.errors import LabError
from gridstead_lab.locks import held
from gridstead_lab.names import STORE, Names

IMAGES = STORE / "images"
HERE = Path(__file__).parent
SUITES = HERE / "other_suites.sh"
INSTALLER = HERE.parents[2] / "roles/control_plane/files/install-environment.sh"
FORMAT = "1"  # raise when the way of building changes
BASE_PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "openssh-server", "procps", "python3", "python3-apt",
    "systemd-sysv",
)  # fmt: skip
LEFT_OUT = ("doc", "info", "locale", "man")
DPKG_OPTIONS = ("force-unsafe-io", *(f"path-exclude=/usr/share/{name}/*" for name in LEFT_OUT))
# What makes a machine's own pip reach its index; visible to the build only.
PIP_SETTINGS = ("/etc/pip.conf", "/root/.config/pip/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
KEPT = ("pip_", "gridstead_lab", "http_proxy", "https_proxy", "no_proxy")  # environment of a build
KEPT_LAYERS = 3
KEPT_S = 600

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything the image depends on.

    Shape: apt_conf is (file name, text), sorted; locks are (file name, text), maybe empty.
    """

    sources: tuple[str, ...]
    apt_conf: tuple[tuple[str, str], ...]
    packages: tuple[str, ...]
    locks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: kind and hash of its inputs."""

    kind: str
    digest: str

    @property
    def name(self) -> str:
        """Return the name of the layer's folder."""
        return f"{self.kind}-{self.digest}"

    @classmethod
    def of(cls, name: str) -> "Layer":
        """Return the layer of a name."""
        kind, _, digest = name.partition("-")
        return cls(kind=kind, digest=digest)

    @property
    def folder(self) -> Path:
        """Return where the complete layer lies."""
        return IMAGES / self.name


def read_packages(text: str) -> tuple[str, ...]:
    """Return the package names of a list with comments, sorted, each once."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(sorted({line for line in lines if line}))


def pinned(lock: str, name: str) -> str:
    """Return the entry of one package in a hashed lock file, with its hashes; empty if absent."""
    lines = lock.splitlines()
    for start, line in enumerate(lines):
        if not line.startswith(f"{name}=="):
            continue
        hashes = itertools.takewhile(lambda text: text.startswith("    --hash"), lines[start + 1 :])
        return "\n".join([line, *hashes]) + "\n"
    return ""


def layers(inputs: Inputs, *, plain: bool = False) -> tuple[Layer, ...]:
    """Return the layers of the image, lowest first; a plain one has its packages ready, not installed. Pure.

    The wheels depend on the base alone (its Python), so a new package does not fetch them again.
    """
    base = _digest(FORMAT, inputs.sources, inputs.apt_conf, BASE_PACKAGES, DPKG_OPTIONS)
    kind = "archive" if plain else "packages"
    script = (HERE / f"layer_{kind}.sh").read_text() + SUITES.read_text()
    found = [
        Layer(kind="base", digest=base),
        Layer(kind=kind, digest=_digest(base, inputs.packages, script)),
    ]
    if inputs.locks:
        script = (HERE / "layer_wheels.sh").read_text() + INSTALLER.read_text()
        texts = tuple(text for _, text in inputs.locks)
        found.append(Layer(kind="wheels", digest=_digest(base, texts, script)))
    return tuple(found)


def look(checkout: Path) -> Inputs:
    """Return the inputs as this machine and this checkout have them."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.*"))]
    texts = [place.read_text() for place in places if place.is_file()]
    return Inputs(
        sources=sources.translate(texts, release["VERSION_CODENAME"].strip('"')),
        apt_conf=tuple((file.name, file.read_text()) for file in sorted(Path("/etc/apt/apt.conf.d").glob("99*"))),
        packages=read_packages((HERE.parent / "packages.txt").read_text()),
        locks=_locks(checkout / "requirements"),
    )


def ensure(inputs: Inputs, names: Names, say: Say, *, plain: bool = False) -> tuple[Layer, ...]:
    """Build what is missing of the image and return its layers, lowest first."""
    wanted = layers(inputs, plain=plain)
    for index, layer in enumerate(wanted):
        if layer.folder.is_dir():
            os.utime(layer.folder)  # last use, see prune()
            continue
        with held(f"image.{layer.name}", lambda: say("waiting for another build of the image")):
            if not layer.folder.is_dir():
                say(f"building image layer {layer.name}")
                _build(layer, wanted[:index], inputs, names)
                _prune(names)
    return wanted


def outdated(used: dict[str, float], mounted: str, now: float) -> list[str]:
    """Return the layers to forget. Pure.

    Of each kind the three used last stay, and whatever is mounted or was used within ten minutes
    (a lab of another checkout may be about to mount it).

    Args:
        used: Layer name -> time of last use. Units: s.
        mounted: The text of /proc/self/mountinfo.
        now: The time. Units: s.
    """
    newest_first = sorted(used, key=lambda name: used[name], reverse=True)
    kinds = {name.partition("-")[0] for name in used}
    kept = {name for kind in kinds for name in [x for x in newest_first if x.startswith(f"{kind}-")][:KEPT_LAYERS]}
    return [name for name in used if name not in kept and name not in mounted and now - used[name] > KEPT_S]


def lowerdir(image: tuple[Layer, ...]) -> str:
    """Return the overlay option for an image, topmost layer first."""
    return ":".join(str(layer.folder) for layer in reversed(image))


def _locks(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the locks of the control plane and of its installer; empty before they exist."""
    control, dev = folder / "control.txt", folder / "dev.txt"
    if not control.is_file() or not dev.is_file():
        return ()
    return (("control.txt", control.read_text()), ("uv.txt", pinned(dev.read_text(), "uv")))


def _build(layer: Layer, below: tuple[Layer, ...], inputs: Inputs, names: Names) -> None:
    place = names.build(layer.name)
    if place.exists():
        shutil.rmtree(place)
    for folder in ("upper", "work", "root", "files"):
        (place / folder).mkdir(parents=True)
    log = STORE / "images" / f"{layer.name}.log"
    match layer.kind:
        case "base":
            _build_base(place, inputs, log)
        case "packages" | "archive":
            shutil.copy(SUITES, place / "files")
            _build_in_root(place, below, f"layer_{layer.kind}.sh", inputs.packages, log)
        case _:
            copies = []
            for name, text in inputs.locks:
                (place / "files" / name).write_text(text)
                copies.append(f"/mnt/{name}")
            shutil.copy(INSTALLER, place / "files")
            _build_in_root(place, below, "layer_wheels.sh", tuple(copies), log)
            _keep_only(place / "upper", {"opt", "var"})  # not the mount points of the pip settings
    (place / "upper").rename(layer.folder)
    shutil.rmtree(place)


def remove_unused(names: Names, say: Say) -> None:
    """Remove every layer that no lab of this machine has mounted, and say which stay."""
    mounted = _mounts()
    for name in sorted(_last_uses()):
        if name in mounted:
            say(f"image layer {name} is in use")
        else:
            _forget(name, names)


def _prune(names: Names) -> None:
    for name in outdated(_last_uses(), _mounts(), time.time()):
        _forget(name, names)


def _forget(name: str, names: Names) -> None:
    doomed = names.build(name)  # renamed first: a half removed layer must not look complete
    (IMAGES / name).rename(doomed)
    shutil.rmtree(doomed)
    (IMAGES / f"{name}.log").unlink(missing_ok=True)


def _last_uses() -> dict[str, float]:
    return {place.name: place.stat().st_mtime for place in IMAGES.glob("[!.]*-*") if place.is_dir()}


def _mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def _build_base(place: Path, inputs: Inputs, log: Path) -> None:
    (place / "files/lab.list").write_text("\n".join(inputs.sources) + "\n")
    options = ['--aptopt=Acquire::Languages "none"', *(f"--dpkgopt={x}" for x in DPKG_OPTIONS)]
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


def _build_in_root(place: Path, below: tuple[Layer, ...], script: str, arguments: tuple[str, ...], log: Path) -> None:
    """Run a script inside an overlay on the layers below; all mounts are the build's own."""
    shutil.copy(HERE / script, place / "files" / script)
    root, overlay = place / "root", f"upperdir={place}/upper,workdir={place}/work"
    lines = [
        "set -eu",
        f"mount -t overlay overlay -o lowerdir={lowerdir(below)},{overlay} {root}",
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
    keep = {name: value for name, value in os.environ.items() if name.lower().startswith(KEPT)}
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", **keep}
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
        raise LabError(message, f"The whole output is in {log}.")
    commands.run(["sync", "--file-system", str(IMAGES)])


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
