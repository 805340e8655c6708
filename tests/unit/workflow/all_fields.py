# SPDX-License-Identifier: Apache-2.0
"""Workflows and a module that together contain every text field of the language."""

from __future__ import annotations

KEY = "A" * 43 + "="
VARIABLE = {"key": "A", "value": "v"}
CONTAINER = {
    "image": "debian:12", "registry": "reg.example", "username": "me", "password": "word",
    "mountHome": True, "x11": True,
    "mounts": [{"hostDir": "/a", "containerDir": "/b", "options": "ro"}],
}  # fmt: skip
PEER = {
    "publicKey": KEY, "preSharedKey": KEY, "allowedIPs": ["10.8.0.0/24"],
    "endpoint": "vpn.example:5",
}  # fmt: skip
INTERFACES = [
    {"wireguard": {"privateKey": KEY, "address": ["10.8.0.2/24"], "peers": [PEER]}},
    {"bore": {"boreAddress": "bore.example:1", "targetPort": 80, "secret": "token"}},
    {"bore": {"address": "bore.example", "port": 1, "targetPort": 81}},
    {"vnet": {"name": "net", "address": "10.9.0.2/24"}},
]  # fmt: skip
RUN = {"run": {"command": "true"}}


def in_container(command, **fields):
    """Return the field ``run`` of a step that runs a command in CONTAINER."""
    return {"command": command, "container": CONTAINER, "env": [VARIABLE], **fields}


STEPS = [
    {
        "name": "host",
        "run": {
            "command": "true", "shell": "/bin/bash", "workDir": "/tmp/x", "mpi": "none",
            "env": [VARIABLE],
        },
    },
    {"name": "container", "run": in_container("echo", workDir="/w")},
    {"name": "entry", "run": in_container("a b", shell="ENTRYPOINT")},
    {
        "name": "path",
        "run": {"command": "x", "container": {"image": "/my.sif", "apptainer": True}},
        "catch": [{}],
    },
    {
        "name": "hosted",
        "run": {"command": "x", "container": {**CONTAINER, "deepsquareHosted": True}},
        "catch": [{}],
    },
    {
        "name": "net",
        "run": {
            "command": "true", "network": "pasta", "dns": ["1.1.1.1"],
            "customNetworkInterfaces": INTERFACES,
        },
    },
    {
        "name": "loop",
        "for": {"parallel": False, "items": ["one"], "steps": [{"name": "in", **RUN}]},
    },
    {"name": "parallel", "for": {"parallel": True, "items": ["two"], "steps": [RUN]}},
    {"name": "launch", "launch": {"handleName": "h", "steps": [RUN]}},
    {"name": "awaits", "dependsOn": ["h"], "finally": [{"name": "last", **RUN}]},
    {
        "name": "module",
        "use": {
            "source": "git.example/a/b@v1", "args": [VARIABLE], "exportEnvAs": "OUT",
            "steps": [{"name": "given"}],
        },
    },
    {"name": "condition", "if": "1 -eq 1", **RUN},
]  # fmt: skip
STORE = {
    "region": "eu", "bucketUrl": "s3://bucket", "path": "/data", "accessKeyId": "key",
    "secretAccessKey": "secret", "endpointUrl": "https://store.example",
}  # fmt: skip
WORKFLOW = {
    "resources": {"tasks": 4, "cpusPerTask": 1, "memPerCpu": 100},
    "env": [VARIABLE],
    "enableLogging": True,
    "virtualNetworks": [{"name": "net", "gatewayAddress": "10.9.0.1/24"}],
    "steps": STEPS,
}
HTTP_WORKFLOW = WORKFLOW | {
    "input": {"http": {"url": "https://in.example/file"}},
    "output": {"http": {"url": "https://out.example/"}},
}
S3_WORKFLOW = WORKFLOW | {"input": {"s3": STORE}, "output": {"s3": STORE}}
MODULE = {
    "name": "name", "description": "what it does",
    "minimumResources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
    "inputs": [
        {"key": "A", "description": "what it is", "default": "one"},
        {"key": "B", "description": "", "default": "two"},
    ],
    "outputs": [{"key": "OUT", "description": "what it says"}],
    "steps": [{"name": "inside", "run": {"command": "true", "env": [VARIABLE]}}],
}  # fmt: skip
