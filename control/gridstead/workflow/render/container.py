# SPDX-License-Identifier: Apache-2.0
"""Commands in containers: the images of a job, and the arguments that start a container.

``templates/container.sh`` and ``templates/container_task.sh`` run on the node. This module renders
their arguments.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Mapping

from gridstead.workflow.render.context import RenderContext, all_steps
from gridstead.workflow.render.shell_text import quote
from gridstead.workflow.schema import ContainerRun, StepRun, Workflow
from gridstead.workflow.schema.run import ENTRYPOINT, HOST

SOFTWARE = "/opt/software"
DOCKER_HUB = "registry-1.docker.io"
# Names of the registry Docker Hub. The script passes no registry instead, because only then do the
# runtimes use a login at Docker Hub.
_DOCKER_HUB_NAMES = (DOCKER_HUB, "docker.io", "index.docker.io")


def containers(workflow: Workflow) -> tuple[ContainerRun, ...]:
    """Return the containers of all steps, in order."""
    runs = (step.run for step in all_steps(workflow.steps) if step.run)
    return tuple(run.container for run in runs if run.container)


def registry_secrets(workflow: Workflow) -> Mapping[str, str]:
    """Return the logins at registries, as variables of the job's environment.

    The value of a variable has the user name on the first line and the password on the second.
    """
    secrets = {}
    for login, number in login_numbers(containers(workflow)).items():
        _, username, password = login
        secrets[f"GRIDSTEAD_REGISTRY_{number}"] = f"{username}\n{password}"
    return secrets


def image_numbers(all_containers: Iterable[ContainerRun]) -> Mapping[tuple[str, ...], int]:
    """Return a number for each different combination of image and registry login."""
    return _number_each(_image_key(container) for container in all_containers)


def login_numbers(all_containers: Iterable[ContainerRun]) -> Mapping[tuple[str, ...], int]:
    """Return a number for each registry login: a registry, a user name and a password."""
    return _number_each(_login_key(container) for container in all_containers if container.username)


def prepare_command(run: StepRun, context: RenderContext) -> str:
    """Return the command that selects the runtime, the image and the directory of a step."""
    assert run.container, "the caller checks that the step has a container"
    select_image = _select_image(run.container, context)
    return select_image if run.work_dir else f"{select_image} && find_work_dir"


def work_dir_argument(run: StepRun) -> str:
    """Return the argument with the directory of a step that names no directory."""
    return "" if run.work_dir else ' "--work-dir=$work_dir"'


def _select_image(container: ContainerRun, context: RenderContext) -> str:
    runtime = "apptainer" if container.apptainer or container.deepsquare_hosted else "any"
    if container.deepsquare_hosted:
        path = posixpath.normpath(f"/{container.registry or DOCKER_HUB}/{container.image}")
        return f"find_image {runtime} {quote(SOFTWARE + path)}"
    if container.image.startswith("/"):
        path = posixpath.normpath("/" + container.image.lstrip("/"))
        return f'find_image {runtime} "$storage"{quote(path)}'
    number = context.image_numbers[_image_key(container)]
    login_number = context.login_numbers.get(_login_key(container))
    file = f'"$private/registry-{login_number}"' if login_number else "''"
    words = [
        runtime,
        str(number),
        quote(_image_name(container)),
        quote(_registry_of(container)),
        file,
    ]
    return f"fetch_image {' '.join(words)}"


def task_arguments(run: StepRun, context: RenderContext) -> str:
    """Return the arguments of a task that follow the image: the options and the command."""
    assert run.container, "the caller checks that the step has a container"
    return " ".join((*_options(run, run.container, context), "--", *_command(run)))


def _options(run: StepRun, container: ContainerRun, context: RenderContext) -> Iterable[str]:
    # A dict keeps the order and removes repeated names.
    names = dict.fromkeys(variable.key for variable in (*context.workflow.env, *run.env))
    for name in (*names, *context.variables):
        yield f"--env={name}"
    if run.work_dir:
        yield f"--work-dir={quote(run.work_dir)}"
    if not container.read_only_root_fs:
        yield "--writable"
    yield from _map_user(run)
    if container.mount_home:
        yield "--home"
    if container.x11:
        yield "--x11"
    if context.workflow.resources.gpus:
        yield "--gpus"
    for mount in container.mounts:
        access = f":{mount.options}" if mount.options else ""
        yield f"--mount={quote(f'{mount.host_dir}:{mount.container_dir}{access}')}"


def maps_to_root(run: StepRun) -> bool:
    """Return whether the command of a container runs as the user and the group root."""
    ids = (run.map_uid, run.map_gid)
    return 0 in ids and not any(ids)


def _map_user(run: StepRun) -> Iterable[str]:
    """Return the options for the user and the group of the command."""
    if maps_to_root(run):
        yield "--root" if run.network == HOST else "--root-of-network"
        return
    if run.map_uid is not None:
        yield f"--map-user={run.map_uid}"
    if run.map_gid is not None:
        yield f"--map-group={run.map_gid}"


def _command(run: StepRun) -> Iterable[str]:
    if run.shell == ENTRYPOINT or not run.command:
        return ("run", *map(quote, shlex.split(run.command)))
    return ("exec", run.shell, "-c", quote(run.command))


def _registry_of(container: ContainerRun) -> str:
    """Return the registry of the image. Empty for Docker Hub."""
    registry = container.registry or ""
    return "" if registry.lower() in _DOCKER_HUB_NAMES else registry


def _image_name(container: ContainerRun) -> str:
    """Return the name of the image at its registry. Each name at Docker Hub has a slash."""
    is_official = not _registry_of(container) and "/" not in container.image
    return f"library/{container.image}" if is_official else container.image


def _image_key(container: ContainerRun) -> tuple[str, ...]:
    return (_image_name(container), *_login_key(container))


def _login_key(container: ContainerRun) -> tuple[str, ...]:
    if not container.username:
        return (_registry_of(container), "", "")
    return (_registry_of(container), container.username, container.password or "")


def _number_each(keys: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], int]:
    return {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}
