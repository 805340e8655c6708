# SPDX-License-Identifier: Apache-2.0
"""Workflows in which every field that holds text stands once, and hostile texts to put there."""

from __future__ import annotations

import copy

from tests.unit.workflow.at_random import text_of

from gridstead.errors import InvalidWorkflow
from gridstead.workflow.parse import from_graphql

KEY = "A" * 43 + "="
VARIABLE = {"key": "A", "value": "v"}
CONTAINER = {
    "image": "debian:12", "registry": "reg.example", "username": "me", "password": "word", "mountHome": True,
    "x11": True,
    "mounts": [{"hostDir": "/a", "containerDir": "/b", "options": "ro"}],
}  # fmt: skip
INTERFACES = [
    {
        "wireguard": {
            "privateKey": KEY, "address": ["10.8.0.2/24"],
            "peers": [
                {"publicKey": KEY, "preSharedKey": KEY, "allowedIPs": ["10.8.0.0/24"], "endpoint": "vpn.example:5"}
            ],
        }
    },
    {"bore": {"boreAddress": "bore.example:1", "targetPort": 80, "secret": "token"}},
    {"bore": {"address": "bore.example", "port": 1, "targetPort": 81}},
    {"vnet": {"name": "net", "address": "10.9.0.2/24"}},
]  # fmt: skip
STEPS = [
    {
        "name": "host",
        "run": {"command": "true", "shell": "/bin/bash", "workDir": "/tmp/x", "mpi": "none", "env": [VARIABLE]},
    },
    {"name": "container", "run": {"command": "echo", "container": CONTAINER, "workDir": "/w", "env": [VARIABLE]}},
    {"name": "entry", "run": {"command": "a b", "shell": "ENTRYPOINT", "container": CONTAINER, "env": [VARIABLE]}},
    {"name": "path", "run": {"command": "x", "container": {"image": "/my.sif", "apptainer": True}}, "catch": [{}]},
    {"name": "hosted", "run": {"command": "x", "container": {**CONTAINER, "deepsquareHosted": True}}, "catch": [{}]},
    {
        "name": "net",
        "run": {"command": "true", "network": "pasta", "dns": ["1.1.1.1"], "customNetworkInterfaces": INTERFACES},
    },
    {
        "name": "loop",
        "for": {"parallel": False, "items": ["one"], "steps": [{"name": "in", "run": {"command": "true"}}]},
    },
    {"name": "rounds", "for": {"parallel": True, "items": ["two"], "steps": [{"run": {"command": "true"}}]}},
    {"name": "beside", "launch": {"handleName": "h", "steps": [{"run": {"command": "true"}}]}},
    {"name": "awaits", "dependsOn": ["h"], "finally": [{"name": "last", "run": {"command": "true"}}]},
    {
        "name": "module",
        "use": {"source": "git.example/a/b@v1", "args": [VARIABLE], "exportEnvAs": "OUT", "steps": [{"name": "given"}]},
    },
]  # fmt: skip
STORE = {
    "region": "eu", "bucketUrl": "s3://bucket", "path": "/data", "accessKeyId": "key", "secretAccessKey": "secret",
    "endpointUrl": "https://store.example",
}  # fmt: skip
WORKFLOW = {
    "resources": {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 100}, "env": [VARIABLE], "enableLogging": True,
    "virtualNetworks": [{"name": "net", "gatewayAddress": "10.9.0.1/24"}], "steps": STEPS,
}  # fmt: skip
WEB = WORKFLOW | {
    "input": {"http": {"url": "https://in.example/file"}},
    "output": {"http": {"url": "https://out.example/"}},
}
STORED = WORKFLOW | {"input": {"s3": STORE}, "output": {"s3": STORE}}

# What is code of the user's by its nature: a condition is evaluated, as a command is run.
CODE = ("if",)
TRIES = 6  # of all texts, as most fields refuse most of them


def hostile(owned):
    """Texts that would make a file if anything of them were code, for fields of all kinds."""
    touch, tight = f"touch {owned}", f"touch${{IFS}}{owned}"
    return [
        f"$({touch})", f"`{touch}`", f"'; {touch}; '", f'"; {touch}; "', f"'$({touch})'", f'"$({touch})"',
        f"\n{touch}\n", f"\n#SBATCH --uid=0\n{touch} #", f"\\\n{touch}\n", f"x\n--\n{touch}\n",
        f"}}\n{touch}\nx() {{",
        f"$({tight})", f"`{tight}`", f"';{tight};'", f'";{tight};"', f"{{{{ {touch} }}}}", f"%%{{steps}}$({touch})",
        f"a=$({touch}) b", f"x[$({tight})]", f"]] && {touch}; [[ x",
        f"&& {touch} &", f"| {touch}", f";{tight};",
        f"<({tight})",
        f"\r\n{touch}\r\n", f"\x1b]0;$({touch})\x07", f"EOF\n{touch}\nEOF", f"-x $({touch})", f"--config=$({tight})",
        f"!{touch}", f"~$({touch})", f"*$({touch})*", f"'\\''; {touch}; '\\''", f"$'\\x27; {touch}; \\x27'",
        f"%s$({tight})",
    ]  # fmt: skip


def texts(value, path=()):
    """Places of texts in a mapping."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(item, (*path, key))
    elif isinstance(value, str) and path[-1] not in CODE:
        yield path


def with_text(mapping, path, text):
    """A copy with another text at a place."""
    changed = copy.deepcopy(mapping)
    place = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = text
    return changed


def accepted(mapping):
    """Whether this is a workflow."""
    try:
        from_graphql(mapping, modules=text_of)
    except InvalidWorkflow:
        return False
    return True


def poisoned(mapping, random, owned):
    """The mapping with a hostile text wherever the language takes one; and how many there are."""
    count = 0
    for path in list(texts(mapping)):
        if path[-2:] == ("run", "command") and "container" not in at(mapping, path[:-1]):
            continue  # it is the user's, and runs
        before = at(mapping, path)
        every = [form for text in hostile(owned) for form in (text, before + text, text + before)]
        for text in random.sample(every, TRIES):
            changed = with_text(mapping, path, text)
            if accepted(changed):
                mapping, count = changed, count + 1
                break
    return mapping, count


def at(mapping, path):
    for part in path:
        mapping = mapping[part]
    return mapping
