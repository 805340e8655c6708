# SPDX-License-Identifier: Apache-2.0
"""The lab's image: read-only layers, cached by the hash of what went into them.

``base`` is a bare Debian, ``packages`` what the roles install, ``wheels`` the Python packages of
the control plane. A plain image has ``archive`` in place of ``packages``: the same, fetched and not
installed. A layer gets its name by one rename at the end of its build: what has the name is
complete.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gridstead_lab import building, commands
from gridstead_lab.inputs import Inputs
from gridstead_lab.locks import held
from gridstead_lab.names import STORE, Names

IMAGES = STORE / "images"
FORMAT = "1"  # raise when the way of building changes
KEPT_LAYERS = 3
KEPT_S = 600

Say = Callable[[str], None]


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


def layers(inputs: Inputs, *, plain: bool = False) -> tuple[Layer, ...]:
    """Return the layers of the image, lowest first; a plain one has its packages ready, not
    installed. Pure.

    The wheels depend on the base alone (its Python), so a new package does not fetch them again.
    """
    base = _digest(
        FORMAT, inputs.sources, inputs.apt_conf, building.BASE_PACKAGES, building.DPKG_OPTIONS
    )
    kind = "archive" if plain else "packages"
    found = [
        Layer(kind="base", digest=base),
        Layer(kind=kind, digest=_digest(base, inputs.packages, building.recipe(kind))),
    ]
    if inputs.lock:
        found.append(
            Layer(kind="wheels", digest=_digest(base, inputs.lock, building.recipe("wheels")))
        )
    return tuple(found)


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
    kept = {
        name
        for kind in kinds
        for name in [x for x in newest_first if x.startswith(f"{kind}-")][:KEPT_LAYERS]
    }
    return [
        name
        for name in used
        if name not in kept and name not in mounted and now - used[name] > KEPT_S
    ]


def lowerdir(image: tuple[Layer, ...]) -> str:
    """Return the overlay option for an image, topmost layer first."""
    return ":".join(str(layer.folder) for layer in reversed(image))


def _build(layer: Layer, below: tuple[Layer, ...], inputs: Inputs, names: Names) -> None:
    place, log = names.build(layer.name), IMAGES / f"{layer.name}.log"
    built = building.build(layer.kind, place, below=lowerdir(below), inputs=inputs, log=log)
    commands.run(["sync", "--file-system", str(IMAGES)])
    built.rename(layer.folder)
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


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
