# SPDX-License-Identifier: Apache-2.0
"""Build one layer of the lab's image in a separate folder.

Each build runs in its own mount namespace and pid namespace. Both namespaces end with this process.
Therefore a killed build leaves no mounts and no processes. The folder of a killed build remains
until the lab's command ``down`` removes it.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from gridstead_lab import sources
from gridstead_lab.errors import LabError
from gridstead_lab.inputs import LOCKS, Inputs

HERE = Path(__file__).parent
# Adds packages of other apt suites than the suite of the image.
OTHER_SUITES_SCRIPT = HERE / "other_suites.sh"
INSTALL_SCRIPT = HERE.parents[2] / "roles/control_plane/files/install-environment.sh"
BASE_PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "openssh-server", "procps", "python3", "python3-apt",
    "systemd-sysv",
)  # fmt: skip
EXCLUDED_FOLDERS = ("doc", "info", "locale", "man")
DPKG_OPTIONS = (
    "force-unsafe-io",
    *(f"path-exclude=/usr/share/{name}/*" for name in EXCLUDED_FOLDERS),
)
# The files with the settings of this machine's pip. The files are mounted during the build and are
# not part of the image.
PIP_SETTINGS = ("/etc/pip.conf", "/root/.config/pip/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
# Prefixes of the environment variables that a build inherits.
INHERITED_PREFIXES = ("pip_", "gridstead_lab", "http_proxy", "https_proxy", "no_proxy")


def script_texts(kind: str) -> str:
    """Return the text of the scripts that build a layer above the base."""
    helper = INSTALL_SCRIPT if kind == "wheels" else OTHER_SUITES_SCRIPT
    return (HERE / f"layer_{kind}.sh").read_text() + helper.read_text()


def build(kind: str, build_folder: Path, *, layers_below: str, inputs: Inputs, log: Path) -> Path:
    """Build a layer and return the folder with its content.

    Args:
        kind: ``base``, ``packages``, ``archive`` or ``wheels``.
        build_folder: Folder of the build. An existing folder is replaced.
        layers_below: The folders of the layers below the new layer, as an overlay's lowerdir
            option.
        inputs: The inputs of the image.
        log: File for the output of the build.

    Raises:
        LabError: If the build fails.
    """
    if build_folder.exists():
        shutil.rmtree(build_folder)
    for folder in ("upper", "work", "root", "files"):
        (build_folder / folder).mkdir(parents=True)
    match kind:
        case "base":
            _build_base(build_folder, inputs, log)
        case "packages" | "archive":
            shutil.copy(OTHER_SUITES_SCRIPT, build_folder / "files")
            _build_in_root(build_folder, layers_below, f"layer_{kind}.sh", inputs.packages, log)
        case _:
            shutil.copy(INSTALL_SCRIPT, build_folder / "files")
            arguments = []
            for name, text in inputs.locks:
                (build_folder / "files" / name).write_text(text)
                arguments += [f"/mnt/{name}", LOCKS[name]]
            _build_in_root(build_folder, layers_below, "layer_wheels.sh", tuple(arguments), log)
            # The layer's content is in opt and var. The rest are mount points of pip's settings.
            _keep_only(build_folder / "upper", {"opt", "var"})
    return build_folder / "upper"


def _build_base(build_folder: Path, inputs: Inputs, log: Path) -> None:
    (build_folder / "files/lab.list").write_text("\n".join(inputs.sources) + "\n")
    options = [
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt={option}" for option in DPKG_OPTIONS),
    ]
    for name, text in inputs.apt_conf:
        file = build_folder / "files" / name
        file.write_text(text)
        options.append(f"--aptopt={file}")
        options.append(f"--customize-hook=cp {file} $1/etc/apt/apt.conf.d/{name}")
    # All users must be able to read the root folder of the image.
    (build_folder / "upper").chmod(0o755)
    run_isolated(
        ["mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(BASE_PACKAGES)}",
         "--skip=cleanup/apt/lists", *options, sources.SUITE, str(build_folder / "upper"),
         str(build_folder / "files/lab.list")],
        log,
    )  # fmt: skip


def _build_in_root(
    build_folder: Path, layers_below: str, script: str, arguments: tuple[str, ...], log: Path
) -> None:
    """Run a script in an overlay over the layers below. No other program sees the mounts."""
    shutil.copy(HERE / script, build_folder / "files" / script)
    root = build_folder / "root"
    overlay = f"upperdir={build_folder}/upper,workdir={build_folder}/work"
    lines = [
        "set -eu",
        f"mount -t overlay overlay -o lowerdir={layers_below},{overlay} {root}",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"mount -t tmpfs tmpfs {root}/tmp",  # noqa: S108
        f"mount --bind {build_folder}/files {root}/mnt",
        f"touch {root}/etc/resolv.conf",
        f"mount --bind /etc/resolv.conf {root}/etc/resolv.conf",
    ]
    if script == "layer_wheels.sh":
        for setting in filter(os.path.exists, PIP_SETTINGS):
            lines.append(f"mkdir -p {root}{Path(setting).parent}; touch {root}{setting}")
            lines.append(f"mount --bind {setting} {root}{setting}")
    lines.append(f'exec chroot {root} /bin/sh /mnt/{script} "$@"')
    run_isolated(["sh", "-c", "\n".join(lines), script, *arguments], log)


def _keep_only(folder: Path, kept_names: AbstractSet[str]) -> None:
    for path in folder.iterdir():
        if path.name in kept_names:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def run_isolated(
    argv: list[str], log: Path, more_variables: Mapping[str, str] | None = None
) -> None:
    """Run a program in its own mount and pid namespace. The program ends when this process ends.

    Args:
        argv: The program and its arguments.
        log: File for the output.
        more_variables: Environment variables besides those that every build inherits.

    Raises:
        LabError: If the exit code of the program is not 0.
    """
    inherited_variables = {}
    for name, value in os.environ.items():
        is_inherited = name.lower().startswith(INHERITED_PREFIXES)
        if is_inherited:
            inherited_variables[name] = value
    env = (
        inherited_variables
        | dict(more_variables or {})
        | {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
        }
    )
    with log.open("w") as out:
        result = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private",
             "--pid", "--fork", "--kill-child=KILL", "--mount-proc", *argv],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False, env=env,
        )  # fmt: skip
    if result.returncode:
        log_lines = log.read_text(errors="replace").splitlines()
        last_lines = "\n".join(log_lines[-15:])
        message = f"could not build the image, exit code {result.returncode}:\n{last_lines}"
        raise LabError(message, f"The complete output is in {log}.")
