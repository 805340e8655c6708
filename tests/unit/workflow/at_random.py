# SPDX-License-Identifier: Apache-2.0
"""Random workflows over the whole language, from a seed.

They are created quickly, so that a test can use thousands.

``make check`` and ``make hostile`` use all of them. ``pytest`` without $GRIDSTEAD_ALL_EXAMPLES uses
the first tenth.
"""

from __future__ import annotations

import os

from tests.unit.workflow.yaml_file import written

HOSTILE = [
    "'; touch owned; '", '"; touch owned; "', "$(touch owned)", "`touch owned`",
    "\n#SBATCH --uid=0\n", "a\r\nb", "\\", "'", "''", '"', "$HOME", "~", "-n", "--", "*",
    "%%{steps}", "\x1b[31m", "\t", "a,b=c", "'\\''", "$'\\x41'", "!!", "\x7f",
    "# shellcheck disable=all", "EOF", "}", "%s", "\u2028", "é\x80", " ",
]  # fmt: skip

KEYS = [
    "A",
    "b_1",
    "each",
    "storage",
    "status",
    "writer",
    "IFS",
    "HOME",
    "STORAGE_PATH",
    "code",
    "ended",
    "value_1",
]
CONDITIONS = [
    "1 -eq 1",
    "-n $HOME",
    '"$A" != "]]"',
    "1 -eq 1 && ( -d / || -e /x )",
    "$(echo x) = x",
]
URLS = [
    "http://a.b:80/c",
    "https://a/$(touch+owned)",
    "https://u:p@a/'b'?c=d&e=`f`",
    "https://a/%27%00%0a/..",
    "https://a",
]
PASSWORDS = ["a", "$(touch,owned)", "'\"\\"]
MAX_DEPTH = 3
SHARE = 1 if os.environ.get("GRIDSTEAD_ALL_EXAMPLES") else 10
KINDS = [
    *["run"] * 4, *["steps"] * 2, *["for"] * 2, *["launch"] * 2, "nothing", "use",
]  # fmt: skip
HUGE = 1_000_000  # more than steps ever use at the same time

MODULE = """\
name: Any
description: {{ .Step.Name | quote }}
minimumResources: {tasks: 1, cpusPerTask: 1, memPerCpu: 1}
inputs: [{key: A, description: a, default: "$(touch owned)"}, {key: each, description: b}]
outputs: [{key: OUT, description: c}]
steps:
- run: {command: 'echo "OUT=$A" >>"$DEEPSQUARE_ENV"'}
{{- .Step.Use.Steps | toYaml | nindent 0 }}
"""


def text_of(_source):
    """Return the text of the only module that random workflows use."""
    return MODULE


def random_module(random):
    """Return a valid module in the wire format, with the inputs of the module above."""
    return _Author(random, containers=True).module()


def module_text(module):
    """Return the text of a module without template actions."""
    return written(module).replace("{{", '{{ "{{" }}')


def random_step(random):
    """Return a step for a job with huge resources. It has few nested steps, so checks are quick."""
    return _Author(random, containers=True).step(
        random.choice([MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH])
    )


def random_mapping(random, *, alone=False):
    """Return a valid workflow in the wire format.

    Args:
        random: The source of randomness.
        alone: Whether the workflow must not need a network or containers.
    """
    author = _Author(random, containers=not alone)
    return author.workflow() | ({} if alone else author.data())


class _Author:
    def __init__(self, random, *, containers):
        self.random = random
        self.containers = containers
        self.handles = 0
        self.network = None
        self.gpus = 0

    def workflow(self):
        resources = {
            "tasks": HUGE,
            "cpusPerTask": self.number(1, 4),
            "memPerCpu": self.number(1, 64),
        }
        job = {"resources": resources | self.some(0.2, gpus=lambda: HUGE)}
        self.gpus = job["resources"].get("gpus", 0)
        if self.containers and self.random.random() < 0.3:
            self.network = self.name()
            job["virtualNetworks"] = [{"name": self.network, "gatewayAddress": "10.0.0.1/8"}]
        job["steps"] = self.steps(0)
        return job | self.some(env=self.env, enableLogging=self.flag)

    def data(self):
        data = self.some(
            0.2, input=self.place, output=self.place, inputMode=lambda: self.number(0, 511)
        )
        if list(data.get("output", {})) == ["s3"]:
            data |= self.some(continuousOutputSync=self.flag)
        return data

    def place(self):
        return self.some(0.5, http=lambda: {"url": self.random.choice(URLS)}, s3=self.store)

    def store(self):
        return {
            "region": "eu", "bucketUrl": "s3://bucket", "path": f"/{self.name()}",
            "accessKeyId": "key", "secretAccessKey": "a/b+c=",
            "endpointUrl": "https://store.example:9000",
            **self.some(deleteSync=self.flag),
        }  # fmt: skip

    def steps(self, depth):
        handles, drawn = [], []
        for _ in range(self.number(1, 3)):
            step = self.step(depth)
            if handles and self.flag():
                step["dependsOn"] = [self.random.choice(handles).upper()]
            if self.flag() and "launch" in step:
                self.handles += 1
                step["launch"]["handleName"] = f"h{self.handles}"
                handles.append(f"h{self.handles}")
            drawn.append(step)
        return drawn

    def step(self, depth):
        kind = self.random.choice(KINDS) if depth < MAX_DEPTH else "run"
        step = self.some(0.3, name=self.name)
        step |= self.some(0.2, **{"if": lambda: self.random.choice(CONDITIONS)})
        if depth < MAX_DEPTH:
            inner = dict.fromkeys(("catch", "finally"), lambda: self.steps(depth + 1))
            step |= self.some(0.15, **inner)
        match kind:
            case "run":
                step["run"] = self.run()
            case "steps":
                step["steps"] = self.steps(depth + 1)
            case "for":
                step["for"] = self.loop(depth)
            case "launch":
                signal = self.some(signalOnParentStepExit=lambda: self.random.choice([0, 2, 9, 15]))
                step["launch"] = {"steps": self.steps(depth + 1), **signal}
            case "use":
                step["use"] = self.use(depth)
        return step

    def loop(self, depth):
        return {
            "parallel": self.flag(),
            "steps": self.steps(depth + 1),
            **self.iterations(),
        }

    def module(self):
        default = self.some(default=self.text)
        return {
            "name": self.name(),
            "description": self.text(),
            "minimumResources": {"tasks": 1, "cpusPerTask": 1, "memPerCpu": 1},
            "inputs": [
                {"key": "A", "description": self.text(), **default},
                {"key": "each", "description": "b"},
            ],
            "outputs": [{"key": "OUT", "description": self.text()}],
            "steps": self.steps(MAX_DEPTH),
        }

    def use(self, depth):
        keys = self.random.sample(["A", "each"], self.number(0, 2))
        use = {
            "source": "git.example/a/b",
            "args": [{"key": key, "value": self.text()} for key in keys],
        }
        return use | self.some(
            exportEnvAs=lambda: "OUTER", steps=lambda: [self.step(MAX_DEPTH) for _ in range(2)]
        )

    def iterations(self):
        if self.flag():
            return {"items": [self.text() for _ in range(self.number(0, 3))]}
        numbers = {"begin": self.number(-1, 1), "end": self.number(-1, 2)}
        return {"range": numbers | self.some(increment=lambda: self.number(-2, 2))}

    def run(self):
        run = {"command": self.text() or "true"} | self.run_fields()
        if not self.containers:
            return run
        run |= self.some(
            0.2,
            network=lambda: self.random.choice(["host", "slirp4netns", "pasta"]),
        )
        run |= self.some(
            0.2, dns=lambda: ["1.1.1.1", "::1"], customNetworkInterfaces=self.interfaces
        )
        if self.random.random() < 0.7:
            return run
        run |= {"container": self.container()}
        return run | self.some(0.2, command=str, shell=lambda: "/bin/ash")

    def run_fields(self):
        fields = self.some(0.2, resources=self.step_resources)
        fields |= self.some(
            0.3,
            env=self.env,
            workDir=lambda: f"/{self.name()}",
            disableCpuBinding=self.flag,
            shell=lambda: self.random.choice(["/bin/sh", "/bin/bash"]),
        )
        return fields | self.some(
            0.2, mpi=lambda: self.random.choice(["none", "pmix_v4", "pmi2"]), mapUid=int, mapGid=int
        )

    def step_resources(self):
        gpus = {"gpusPerTask": lambda: self.number(0, 2)} if self.gpus else {}
        fields = dict.fromkeys(("tasks", "cpusPerTask", "memPerCpu"), lambda: self.number(1, 4))
        return self.some(**fields, **gpus)

    def container(self):
        container = {"image": self.random.choice(["debian:12", "a/b:C", f"/x{self.name()}.sif"])}
        if self.flag():
            container |= {
                "registry": "reg.example:5000",
                "username": "me",
                "password": self.random.choice(PASSWORDS),
            }
        flags = ("apptainer", "deepsquareHosted", "x11", "mountHome", "readOnlyRootFS")
        return container | self.some(0.3, mounts=self.mounts, **dict.fromkeys(flags, self.flag))

    def interfaces(self):
        key = "A" * 43 + "="
        peer = {
            "publicKey": key,
            "allowedIPs": ["0.0.0.0/0", "::/0"],
            "endpoint": "[::1]:5",
            "preSharedKey": key,
        }
        peer |= self.some(persistentKeepalive=lambda: self.number(0, 65535))
        known = [
            {"wireguard": {"privateKey": key, "address": ["10.0.0.1/8"], "peers": [peer]}},
            {
                "bore": {
                    "boreAddress": "a.b:1",
                    "targetPort": 80,
                    "secret": self.random.choice(PASSWORDS),
                }
            },
            {"bore": {"address": "a.b", "port": 1, "targetPort": 80}},
        ]
        if self.network is not None:
            known.append({"vnet": {"name": self.network, "address": "10.1.2.3/8"}})
        return [self.random.choice(known) for _ in range(self.number(0, 3))]

    def mounts(self):
        return [
            {
                "hostDir": "/a-b",
                "containerDir": "/$(touch<owned)'",
                "options": self.random.choice(["", "ro", "rw"]),
            }
        ]

    def env(self):
        return [
            {"key": key, "value": self.text()}
            for key in self.random.sample(KEYS, self.number(0, 3))
        ]

    def name(self):
        return "".join(char for char in self.text() if char.isprintable())[:100]

    def text(self):
        return "".join(self.random.choice(HOSTILE) for _ in range(self.number(0, 4)))

    def flag(self):
        return self.random.random() < 0.5

    def number(self, least, most):
        return self.random.randint(least, most)

    def some(self, chance=0.5, **fields):
        """Return some of these fields, each with a new value."""
        return {name: make() for name, make in fields.items() if self.random.random() < chance}
