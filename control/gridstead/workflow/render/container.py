# SPDX-License-Identifier: Apache-2.0
"""Commands in containers: which images a job needs, and how a task starts one.

What the task does on its node is in ``templates/container.sh``; here are only the words that it is
told.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Mapping

from gridstead.workflow.render.context import RenderContext, all_steps
from gridstead.workflow.render.shell_text import quote
from gridstead.workflow.schema import ContainerRun, StepRun, Workflow

SOFTWARE = "/opt/software"
DOCKER_HUB = "registry-1.docker.io"
ENTRYPOINT = "ENTRYPOINT"


def containers(workflow: Workflow) -> tuple[ContainerRun, ...]:
    """Return the containers of all steps, in order."""
    found = (step.run.container for step in all_steps(workflow.steps) if step.run)
    return tuple(container for container in found if container)


def registry_secrets(workflow: Workflow) -> Mapping[str, str]:
    """Return who to be at each registry: variables of the job's environment; user and password on a
    line each.
    """
    accesses = access_numbers(containers(workflow))
    return {f"GRIDSTEAD_REGISTRY_{number}": "\n".join(key[1:]) for key, number in accesses.items()}


def image_numbers(found: Iterable[ContainerRun]) -> Mapping[tuple[str, ...], int]:
    """Return a number for each image."""
    return _numbered(_image_key(container) for container in found)


def access_numbers(found: Iterable[ContainerRun]) -> Mapping[tuple[str, ...], int]:
    """Return a number for each name and password at a registry."""
    return _numbered(_access_key(container) for container in found if container.username)


def prepare(container: ContainerRun, place: RenderContext) -> str:
    """Return the line of a step that finds its runtime and its image."""
    runtime = "apptainer" if container.apptainer or container.deepsquare_hosted else "any"
    if container.deepsquare_hosted:
        path = posixpath.normpath(f"/{container.registry or DOCKER_HUB}/{container.image}")
        return f"find_image {runtime} {quote(SOFTWARE + path)}"
    if container.image.startswith("/"):
        return f'find_image {runtime} "$storage"{quote(posixpath.normpath("/" + container.image.lstrip("/")))}'
    number = place.images[_image_key(container)]
    access = place.accesses.get(_access_key(container))
    file = f'"$private/registry-{access}"' if access else "''"
    words = [runtime, str(number), quote(container.image), quote(container.registry or ""), file]
    return f"fetch_image {' '.join(words)}"


def task_words(run: StepRun, place: RenderContext) -> str:
    """Return what a task is told after the image: how the container is, and what runs in it."""
    assert run.container, "this step has one"
    return " ".join((*_options(run, run.container, place), "--", *_command(run)))


def _options(run: StepRun, container: ContainerRun, place: RenderContext) -> Iterable[str]:
    names = dict.fromkeys(variable.key for variable in (*place.workflow.env, *run.env))
    yield from (f"--env={name}" for name in (*names, *place.variables))
    yield f"--work-dir={quote(run.work_dir or '/')}"
    if not container.read_only_root_fs:
        yield "--writable"
    if run.map_uid is not None or run.map_gid is not None:
        yield "--root"
    if container.mount_home:
        yield "--home"
    if container.x11:
        yield "--x11"
    if place.workflow.resources.gpus:
        yield "--gpus"
    for mount in container.mounts:
        access = f":{mount.options}" if mount.options else ""
        yield f"--mount={quote(f'{mount.host_dir}:{mount.container_dir}{access}')}"


def _command(run: StepRun) -> Iterable[str]:
    if run.shell == ENTRYPOINT or not run.command:
        return ("run", *map(quote, shlex.split(run.command)))
    return ("exec", run.shell, "-c", quote(run.command))


def _image_key(container: ContainerRun) -> tuple[str, ...]:
    return (container.image, *_access_key(container))


def _access_key(container: ContainerRun) -> tuple[str, ...]:
    return (container.registry or "", container.username or "", container.password or "")


def _numbered(keys: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], int]:
    return {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}
