# SPDX-License-Identifier: Apache-2.0
"""The lab's image: read-only layers, cached by the hash of their inputs.

The layer ``base`` is a bare Debian, ``packages`` are the packages that the roles install, and
``wheels`` are the Python packages of the control plane. A plain image has ``archive`` in place of
``packages``: the same packages, downloaded but not installed. A layer gets its name by a rename at
the end of its build. A folder with the name of a layer is therefore complete.
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
from gridstead_lab.locks import held
from gridstead_lab.names import STORE, Names

IMAGES = STORE / "images"
FORMAT = "1"  # raise it when the build procedure changes
KEPT_LAYERS = 3
KEPT_S = 600

Report = Callable[[str], None]  # prints a line of progress


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
        """Return the layer with this name."""
        kind, _, digest = name.partition("-")
        return cls(kind=kind, digest=digest)

    @property
    def folder(self) -> Path:
        """Return the folder of the complete layer."""
        return IMAGES / self.name


def layers(inputs: Inputs, *, plain: bool = False) -> tuple[Layer, ...]:
    """Return the layers of the image, lowest first. Pure.

    A plain image contains its packages as files that are not installed. The wheels depend only on
    the base (on its Python), so a new package does not download them again.
    """
    base = _digest(
        FORMAT, inputs.sources, inputs.apt_conf, building.BASE_PACKAGES, building.DPKG_OPTIONS
    )
    kind = "archive" if plain else "packages"
    result = [
        Layer(kind="base", digest=base),
        Layer(kind=kind, digest=_digest(base, inputs.packages, building.recipe(kind))),
    ]
    if inputs.lock:
        wheels = _digest(base, inputs.lock, building.recipe("wheels"))
        result.append(Layer(kind="wheels", digest=wheels))
    return tuple(result)


def layer_names(image: tuple[Layer, ...]) -> list[str]:
    """Return the names of the layers of an image, in their order."""
    return [layer.name for layer in image]


def ensure(
    inputs: Inputs, names: Names, report: Report, *, plain: bool = False
) -> tuple[Layer, ...]:
    """Build the missing layers of the image and return all its layers, lowest first."""
    required = layers(inputs, plain=plain)
    for index, layer in enumerate(required):
        if layer.folder.is_dir():
            os.utime(layer.folder)  # records the last use, see _prune()
            continue
        with held(f"image.{layer.name}", lambda: report("waiting for another build of the image")):
            if not layer.folder.is_dir():
                report(f"building image layer {layer.name}")
                _build(layer, required[:index], inputs, names)
                _prune(names)
    return required


def outdated(used: dict[str, float], mounted: str, now: float) -> list[str]:
    """Return the layers to remove. Pure.

    The three layers of each kind that were used last are retained. So is a layer that is mounted or
    was used within the last ten minutes: a lab of another checkout may be about to mount it.

    Args:
        used: Layer name -> time of last use, in seconds since the epoch.
        mounted: The text of /proc/self/mountinfo.
        now: The present time, in seconds since the epoch.
    """
    newest_first = sorted(used, key=lambda name: used[name], reverse=True)
    by_kind: dict[str, list[str]] = defaultdict(list)
    for name in newest_first:
        by_kind[name.partition("-")[0]].append(name)
    old = []
    for name, used_at in used.items():
        is_newest = name in by_kind[name.partition("-")[0]][:KEPT_LAYERS]
        if not is_newest and name not in mounted and now - used_at > KEPT_S:
            old.append(name)
    return old


def lowerdir(image: tuple[Layer, ...]) -> str:
    """Return an overlay's lowerdir for an image: its layers, topmost first."""
    return ":".join(str(layer.folder) for layer in reversed(image))


def _build(layer: Layer, below: tuple[Layer, ...], inputs: Inputs, names: Names) -> None:
    place, log = names.build(layer.name), IMAGES / f"{layer.name}.log"
    built = building.build(layer.kind, place, below=lowerdir(below), inputs=inputs, log=log)
    commands.run(["sync", "--file-system", str(IMAGES)])
    built.rename(layer.folder)
    shutil.rmtree(place)


def remove_unused(names: Names, report: Report) -> None:
    """Remove every layer that no lab of this machine has mounted; report the others."""
    mounted = _mounts()
    for name in sorted(_last_uses()):
        if name in mounted:
            report(f"image layer {name} is in use")
        else:
            _remove(name, names)


def _prune(names: Names) -> None:
    for name in outdated(_last_uses(), _mounts(), time.time()):
        _remove(name, names)


def _remove(name: str, names: Names) -> None:
    # The rename comes first: a partly removed layer must not be taken for a complete one.
    removed = names.build(name)
    (IMAGES / name).rename(removed)
    shutil.rmtree(removed)
    (IMAGES / f"{name}.log").unlink(missing_ok=True)


def _last_uses() -> dict[str, float]:
    used = {}
    for place in IMAGES.glob("[!.]*-*"):
        if place.is_dir():
            used[place.name] = place.stat().st_mtime
    return used


def _mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
