# SPDX-License-Identifier: Apache-2.0
"""Keep Traefik's configuration, and tell whether Traefik serves it.

Traefik has no command that checks a configuration: it ignores a static key that it does not know,
and keeps what it has when a dynamic file is wrong. So nothing is written that has not passed two
checks. Rule 1: each static key is one of the flags that the program itself lists. Rule 2: a second
Traefik starts with the new files, on free ports of the loopback, and its own API and log say that
every route works. Which ports are open is for the state ``live``.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_file import write_whole
from ansible.module_utils.traefik_checks import (
    API,
    known_flags,
    log_errors,
    missing_entry_points,
    missing_routes,
    route_errors,
    trial_of,
    wrong_keys,
)

DOCUMENTATION = """
module: traefik_configuration
short_description: Keep Traefik's configuration, and tell whether Traefik serves it
description:
  - C(present) writes both files if they differ, after a check of their keys and a trial on the loopback.
  - C(live) changes nothing and fails unless the running Traefik serves them without an error.
options:
  state: {choices: [present, live], default: present, description: What must be true.}
  binary: {type: path, required: true, description: The program.}
  account: {type: str, description: Who runs the trial; absent the caller.}
  directory: {type: path, required: true, description: Where C(traefik.yml) and C(dynamic/gridstead.yml) are.}
  static: {type: str, required: true, description: Text of the first.}
  static_document: {type: dict, required: true, description: What it says.}
  dynamic: {type: str, required: true, description: Text of the second.}
  dynamic_document: {type: dict, required: true, description: What it says.}
  timeout_s: {type: int, default: 20, description: How long Traefik has to take them up.}
"""
EXAMPLES = """
- name: Ensure the configuration is here
  traefik_configuration:
    binary: /usr/local/bin/traefik
    account: traefik
    directory: /etc/traefik
    static: "{{ text }}"
    static_document: "{{ text | from_yaml }}"
    dynamic: "http: {}"
    dynamic_document: {http: {}}
"""
RETURN = """
static_changed: {type: bool, returned: always, description: Whether Traefik must be restarted.}
"""

STEP_S = 0.1


class Wrong(Exception):
    """A configuration that must not be used, or is not used."""


def free_addresses() -> Generator[str]:
    """Return addresses of the loopback that nobody listens on; each is kept until the next is asked
    for.
    """
    taken = []
    try:
        while True:
            taken.append(socket.create_server(("127.0.0.1", 0)))
            yield f"127.0.0.1:{taken[-1].getsockname()[1]}"
    finally:
        for one in taken:
            one.close()


def ask(address: str, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return what Traefik's API answers, None while it does not."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/api/{path}", timeout=5) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def check_keys(binary: str, static: Mapping[str, Any]) -> None:
    """Return if Traefik knows every static key.

    Raises:
        Wrong: If it does not.
    """
    told = subprocess.run(
        [binary, "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    if wrong := wrong_keys(static, known_flags(told)):
        raise Wrong("; ".join(wrong))


@contextmanager
def trial(options: Mapping[str, Any]) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """Run a second Traefik with the new files and what lies beside the old ones: its API's address,
    log, process.

    It ends with the process that runs it, even if that is killed, as when a run of the playbook is.
    """
    with tempfile.TemporaryDirectory(prefix="traefik-trial-") as name:
        folder = Path(name)
        beside = [
            file
            for file in Path(options["directory"], "dynamic").glob("*.*")
            if file.name != "gridstead.yml"
        ]
        (folder / "dynamic").mkdir()
        for file in beside:
            shutil.copy(file, folder / "dynamic")
        (folder / "dynamic/gridstead.yml").write_text(json.dumps(options["dynamic_document"]))
        with closing(free_addresses()) as addresses:
            static = trial_of(options["static_document"], name, addresses)
        (folder / "traefik.yml").write_text(json.dumps(static))
        account = options.get("account")
        for path in (folder, folder / "dynamic") if account else ():
            shutil.chown(path, account, account)
        who = {"user": account, "group": account, "extra_groups": []} if account else {}
        log = folder / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", options["binary"], f"--configFile={folder}/traefik.yml"],
                stdout=stream, stderr=stream, **who,
            )  # fmt: skip
            try:
                yield static["entryPoints"][API]["address"], log, process
            finally:
                process.kill()
                process.wait()


def missing_authorities(dynamic: Mapping[str, Any]) -> list[str]:
    """Return the files of authorities that are not there, one line each; Traefik says nothing and
    believes nobody.
    """
    transports = dynamic.get("http", {}).get("serversTransports", {}).values()
    paths = [path for transport in transports for path in transport.get("rootCAs", [])]
    return [f"{path} is not a file" for path in paths if not Path(path).is_file()]


def check_trial(options: Mapping[str, Any]) -> None:
    """Return if a second Traefik takes both documents and says that every route works.

    Raises:
        Wrong: If it ends, complains, or does not have the routes in time.
    """
    until = time.monotonic() + options["timeout_s"]
    with trial(options) as (address, log, process):
        rawdata, missing = {}, [f"Traefik did not answer within {options['timeout_s']} s"]
        while missing and process.poll() is None and time.monotonic() < until:
            if log_errors(log.read_text(), of_files=True):
                break
            time.sleep(STEP_S)
            answer = ask(address, "rawdata")
            if answer is not None:
                rawdata, missing = answer, missing_routes(answer, options["dynamic_document"])
        errors = route_errors(rawdata) or log_errors(log.read_text())
        wrong = missing_authorities(options["dynamic_document"]) or errors or missing
    if wrong:
        raise Wrong("; ".join(wrong))


def check_live(options: Mapping[str, Any]) -> None:
    """Return if the running Traefik serves both documents without an error, within the time that it
    has.

    Raises:
        Wrong: If it does not.
    """
    static, dynamic = options["static_document"], options["dynamic_document"]
    address = static["entryPoints"][API]["address"]
    until = time.monotonic() + options["timeout_s"]
    while True:
        rawdata, entries = ask(address, "rawdata"), ask(address, "entrypoints")
        if rawdata is None or entries is None:
            wrong = [f"Traefik does not answer on {address}"]
        else:
            wrong = (
                missing_entry_points(entries, static)
                + missing_routes(rawdata, dynamic)
                + route_errors(rawdata)
            )
        if not wrong:
            return
        if time.monotonic() >= until:
            raise Wrong("; ".join(wrong))
        time.sleep(STEP_S)


def keep(options: Mapping[str, Any], *, check_mode: bool) -> dict[str, Any]:
    """Make both files what they must be, after the checks, and return the module's answer.

    Raises:
        Wrong: If a check fails; nothing is written.
    """
    directory = Path(options["directory"])
    wanted = {
        directory / "traefik.yml": options["static"],
        directory / "dynamic/gridstead.yml": options["dynamic"],
    }
    before = {path: path.read_text() if path.exists() else "" for path in wanted}
    changed = [path for path in wanted if before[path] != wanted[path]]
    # A check run on a host without the program tells what would change, and no more.
    if changed and (Path(options["binary"]).exists() or not check_mode):
        check_keys(options["binary"], options["static_document"])
        check_trial(options)
    for path in () if check_mode else changed:
        write_whole(path, wanted[path].encode(), mode=0o644)
    diff = [{"before": before[path], "after": wanted[path], "path": str(path)} for path in changed]
    return {
        "changed": bool(changed),
        "static_changed": directory / "traefik.yml" in changed,
        "diff": diff,
    }


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "state": {"choices": ["present", "live"], "default": "present"},
            "binary": {"type": "path", "required": True},
            "account": {"type": "str"},
            "directory": {"type": "path", "required": True},
            "static": {"type": "str", "required": True},
            "static_document": {"type": "dict", "required": True},
            "dynamic": {"type": "str", "required": True},
            "dynamic_document": {"type": "dict", "required": True},
            "timeout_s": {"type": "int", "default": 20},
        },
    )
    try:
        if module.params["state"] == "live":
            check_live(module.params)
            module.exit_json(changed=False, static_changed=False)
        module.exit_json(**keep(module.params, check_mode=module.check_mode))
    except Wrong as err:
        module.fail_json(msg=f"Traefik's configuration: {err}")


if __name__ == "__main__":
    main()
