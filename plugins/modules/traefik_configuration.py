# SPDX-License-Identifier: Apache-2.0
"""Writes Traefik's configuration after a test, and checks whether Traefik serves it.

Traefik has no command that checks a configuration. It ignores an unknown static key, and keeps the
old routes if a dynamic file is wrong. So the module writes nothing that has not passed two checks:

Rule 1: each static key is one of the flags that the program lists.
Rule 2: a second Traefik starts with the new files, on free ports of loopback, and neither its API
nor its log reports an error of a route.

State ``live`` checks the ports of the running Traefik.
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
from ansible_collections.gridstead.site.plugins.module_utils.durable_file import write_whole
from ansible_collections.gridstead.site.plugins.module_utils.traefik_checks import (
    API,
    key_faults,
    known_flags,
    log_errors,
    make_trial,
    missing_entry_points,
    missing_routes,
    route_errors,
)

DOCUMENTATION = """
module: traefik_configuration
short_description: Write Traefik's configuration, or check whether Traefik serves it
description:
  - C(present) writes both files if they differ, after a check of their keys and a test run on
    loopback.
  - C(live) changes nothing and fails unless the running Traefik serves the files without an error.
options:
  state: {choices: [present, live], default: present, description: Whether to write or to check.}
  binary: {type: path, required: true, description: Path of the program.}
  account: {type: str, description: Account of the test run; by default that of the module.}
  directory:
    type: path
    required: true
    description: Folder of C(traefik.yml) and C(dynamic/gridstead.yml).
  static: {type: str, required: true, description: Text of C(traefik.yml).}
  static_document: {type: dict, required: true, description: Content of C(traefik.yml).}
  dynamic: {type: str, required: true, description: Text of C(dynamic/gridstead.yml).}
  dynamic_document: {type: dict, required: true, description: Content of C(dynamic/gridstead.yml).}
  timeout_s: {type: int, default: 20, description: Seconds in which Traefik must load the files.}
"""
EXAMPLES = """
- name: Write the configuration of Traefik
  gridstead.site.traefik_configuration:
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
    """A configuration that Traefik rejects, or does not serve."""


def free_addresses() -> Generator[str]:
    """Yield loopback addresses with free ports. Each stays reserved until the next one is taken."""
    servers = []
    try:
        while True:
            servers.append(socket.create_server(("127.0.0.1", 0)))
            yield f"127.0.0.1:{servers[-1].getsockname()[1]}"
    finally:
        for server in servers:
            server.close()


def ask(address: str, path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the answer of Traefik's API; None if it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/api/{path}", timeout=5) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def check_keys(binary: str, static: Mapping[str, Any]) -> None:
    """Check that Traefik has every static key.

    Raises:
        Wrong: If it does not.
    """
    help_text = subprocess.run(
        [binary, "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    wrong = key_faults(static, known_flags(help_text))
    if wrong:
        raise Wrong("; ".join(wrong))


@contextmanager
def trial(options: Mapping[str, Any]) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """Run a second Traefik with the new files and the site's own dynamic files.

    Yields:
        The address of its API, its log and its process. The process ends with the caller, also if
        the caller is killed, for example with the run of the playbook.
    """
    with tempfile.TemporaryDirectory(prefix="traefik-trial-") as name:
        folder = Path(name)
        (folder / "dynamic").mkdir()
        for file in Path(options["directory"], "dynamic").glob("*.*"):
            if file.name != "gridstead.yml":
                shutil.copy(file, folder / "dynamic")
        (folder / "dynamic/gridstead.yml").write_text(json.dumps(options["dynamic_document"]))
        with closing(free_addresses()) as addresses:
            static = make_trial(options["static_document"], name, addresses)
        (folder / "traefik.yml").write_text(json.dumps(static))
        account = options.get("account")
        if account:
            for path in (folder, folder / "dynamic"):
                shutil.chown(path, account, account)
        log = folder / "log"
        process = start(options["binary"], folder, account, log)
        try:
            yield static["entryPoints"][API]["address"], log, process
        finally:
            process.kill()
            process.wait()


def start(binary: str, folder: Path, account: str | None, log: Path) -> subprocess.Popen[bytes]:
    """Start Traefik with the files of a folder and return its process."""
    who = {"user": account, "group": account, "extra_groups": []} if account else {}
    argv = ["setpriv", "--pdeathsig=KILL", binary, f"--configFile={folder}/traefik.yml"]
    with log.open("wb") as stream:
        return subprocess.Popen(argv, stdout=stream, stderr=stream, **who)


def missing_authorities(dynamic: Mapping[str, Any]) -> list[str]:
    """Return a line for each file of authorities that does not exist.

    Traefik reports no error for it, and trusts no server.
    """
    transports = dynamic.get("http", {}).get("serversTransports", {}).values()
    paths: list[str] = []
    for transport in transports:
        paths += transport.get("rootCAs", [])
    return [f"{path} is not a file" for path in paths if not Path(path).is_file()]


def check_trial(options: Mapping[str, Any]) -> None:
    """Check with a second Traefik that both documents are accepted and every route works.

    Raises:
        Wrong: If it exits, reports an error, or does not load the routes in time.
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
    """Check that the running Traefik serves both documents without an error, within the time-out.

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
    """Write both files after the checks, and return the result of the module.

    Raises:
        Wrong: If a check fails; no file changes.
    """
    directory = Path(options["directory"])
    texts = {
        directory / "traefik.yml": options["static"],
        directory / "dynamic/gridstead.yml": options["dynamic"],
    }
    changed, diff = [], []
    for path, text in texts.items():
        before = path.read_text() if path.exists() else ""
        if before != text:
            changed.append(path)
            diff.append({"before": before, "after": text, "path": str(path)})
    # In check mode the program may not be installed yet; then nothing can be tested.
    if changed and (Path(options["binary"]).exists() or not check_mode):
        check_keys(options["binary"], options["static_document"])
        check_trial(options)
    if not check_mode:
        for path in changed:
            write_whole(path, texts[path].encode(), mode=0o644)
    return {
        "changed": bool(changed),
        "static_changed": directory / "traefik.yml" in changed,
        "diff": diff,
    }


def main() -> None:
    """Run the module."""
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
