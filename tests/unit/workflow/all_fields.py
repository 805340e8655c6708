# SPDX-License-Identifier: Apache-2.0
"""Workflows and a module in which every field of the language that holds text stands at least once."""

from __future__ import annotations

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
    {"name": "asks", "if": "1 -eq 1", "run": {"command": "true"}},
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
MODULE = {
    "name": "name", "description": "what it does",
    "minimumResources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
    "inputs": [
        {"key": "A", "description": "what it is", "default": "one"}, {"key": "B", "description": "", "default": "two"},
    ],
    "outputs": [{"key": "OUT", "description": "what it says"}],
    "steps": [{"name": "inside", "run": {"command": "true", "env": [VARIABLE]}}],
}  # fmt: skip
