# SPDX-License-Identifier: Apache-2.0
"""The lab's image: read-only layers, cached by the hash of their inputs.

Layer ``base`` is a bare Debian. Layer ``packages`` contains the packages that the roles install,
and layer ``wheels`` contains the Python packages of the control plane and of the benchmarks. A
plain image has layer ``archive`` instead of ``packages``: the same packages, downloaded but not
installed. The last step of a build renames its folder to the name of the layer. A folder with this
name is thus complete.
"""

import hashlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import building, commands
from gridstead_lab.inputs import Inputs
from gridstead_lab.locks import hold_mutex
from gridstead_lab.names import STORE, Names

IMAGES = STORE / "images"
FORMAT = "1"  # increase this number after a change of the build procedure
RETAINED_LAYERS = 3
RETENTION_S = 600

Report = Callable[[str], None]  # a function that prints a line of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer: its kind and the hash of its inputs."""

    kind: str
    digest: str

    @property
    def name(self) -> str:
        """Return the name of the layer's folder."""
        return f"{self.kind}-{self.digest}"

    @classmethod
    def of(cls, name: str) -> "Layer":
        """Return the layer whose folder has this name."""
        kind, _, digest = name.partition("-")
        return cls(kind=kind, digest=digest)

    @property
    def folder(self) -> Path:
        """Return the folder of the complete layer."""
        return IMAGES / self.name


def layers(inputs: Inputs, *, plain: bool = False) -> tuple[Layer, ...]:
    """Return the layers of the image, lowest first.

    The wheels depend only on the base, which contains Python. A change of the packages therefore
    does not rebuild them. They are built above the packages, which contain python3-venv.
    """
    base = _digest(
        FORMAT, inputs.sources, inputs.apt_conf, building.BASE_PACKAGES, building.DPKG_OPTIONS
    )
    kind = "archive" if plain else "packages"
    packages = _digest(base, inputs.packages, building.script_texts(kind))
    image_layers = [Layer(kind="base", digest=base), Layer(kind=kind, digest=packages)]
    if inputs.locks:
        wheels = _digest(base, inputs.locks, building.script_texts("wheels"))
        image_layers.append(Layer(kind="wheels", digest=wheels))
    return tuple(image_layers)


def layer_names(image: tuple[Layer, ...]) -> list[str]:
    """Return the names of the layers of an image, in their order."""
    return [layer.name for layer in image]


def ensure(
    inputs: Inputs, names: Names, report: Report, *, plain: bool = False
) -> tuple[Layer, ...]:
    """Build the missing layers of the image and return all its layers, lowest first."""
    image_layers = layers(inputs, plain=plain)
    # The packages are not a part of a plain image. The other image contains the same wheels.
    if plain and image_layers[-1].kind == "wheels" and not image_layers[-1].folder.is_dir():
        ensure(inputs, names, report)
    for index, layer in enumerate(image_layers):
        if layer.folder.is_dir():
            os.utime(layer.folder)  # _prune() reads the time of the last use
            continue
        with hold_mutex(
            f"image.{layer.name}", lambda: report("waiting for another build of the image")
        ):
            # Another process may have built the layer while this process waited for the mutex.
            if not layer.folder.is_dir():
                report(f"building image layer {layer.name}")
                _build(layer, image_layers[:index], inputs, names)
                _prune(names)
    return image_layers


def outdated(last_uses: dict[str, float], mountinfo: str, now: float) -> list[str]:
    """Return the names of the layers to remove.

    The function retains the three most recently used layers of each kind, and mounted layers. It
    also retains layers that were used within the last ten minutes, because a lab of another
    checkout may mount them soon.

    Args:
        last_uses: The Unix time of the last use of each layer, by name.
        mountinfo: The text of /proc/self/mountinfo.
        now: The current Unix time.
    """
    newest_first = sorted(last_uses, key=lambda name: last_uses[name], reverse=True)
    by_kind: dict[str, list[str]] = defaultdict(list)
    for name in newest_first:
        by_kind[Layer.of(name).kind].append(name)
    outdated_names = []
    for name, used_at in last_uses.items():
        newest_of_kind = by_kind[Layer.of(name).kind][:RETAINED_LAYERS]
        is_newest = name in newest_of_kind
        if not is_newest and name not in mountinfo and now - used_at > RETENTION_S:
            outdated_names.append(name)
    return outdated_names


def lowerdir(image: tuple[Layer, ...]) -> str:
    """Return the lowerdir option of an overlay over an image: its layers, topmost first."""
    return ":".join(str(layer.folder) for layer in reversed(image))


def _build(layer: Layer, layers_below: tuple[Layer, ...], inputs: Inputs, names: Names) -> None:
    build_folder = names.build_folder(layer.name)
    content = building.build(
        layer.kind,
        build_folder,
        layers_below=lowerdir(layers_below),
        inputs=inputs,
        log=IMAGES / f"{layer.name}.log",
    )
    commands.run(["sync", "--file-system", str(IMAGES)])
    content.rename(layer.folder)
    shutil.rmtree(build_folder)


def remove_unused(names: Names, report: Report) -> None:
    """Remove the layers that no lab of this machine has mounted, and report the mounted layers."""
    mountinfo = _mountinfo()
    for name in sorted(_last_uses()):
        if name in mountinfo:
            report(f"image layer {name} is in use")
        else:
            _remove(name, names)


def _prune(names: Names) -> None:
    for name in outdated(_last_uses(), _mountinfo(), time.time()):
        _remove(name, names)


def _remove(name: str, names: Names) -> None:
    # A folder with the name of a layer must be complete, so rename the folder before its removal.
    removed_folder = names.build_folder(name)
    (IMAGES / name).rename(removed_folder)
    shutil.rmtree(removed_folder)
    (IMAGES / f"{name}.log").unlink(missing_ok=True)


def _last_uses() -> dict[str, float]:
    last_uses = {}
    for folder in IMAGES.glob("[!.]*-*"):
        if folder.is_dir():
            last_uses[folder.name] = folder.stat().st_mtime
    return last_uses


def _mountinfo() -> str:
    return Path("/proc/self/mountinfo").read_text()


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
