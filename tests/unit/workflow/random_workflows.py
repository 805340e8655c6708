# SPDX-License-Identifier: Apache-2.0
"""A fast generator of random workflows and modules. Together they use all workflow fields.

Tests generate thousands of workflows, each from a seed. ``make hostile`` sets $GRIDSTEAD_HOSTILE,
and ``make test`` sets $GRIDSTEAD_ALL_TESTS. With the second variable only, the tests use a quarter
of the workflows or values; without both variables, a tenth.
"""

from __future__ import annotations

import os

from tests.unit.workflow.yaml_file import to_yaml

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
# Each test divides its number of random workflows, or of random values, by this number.
ALL_TESTS = bool(os.environ.get("GRIDSTEAD_ALL_TESTS"))
DIVISOR = 4 if ALL_TESTS else 10
if os.environ.get("GRIDSTEAD_HOSTILE"):
    DIVISOR = 1
STEP_TYPES = [
    *["run"] * 4, *["steps"] * 2, *["for"] * 2, *["launch"] * 2, "nothing", "use",
]  # fmt: skip
HUGE = 1_000_000  # an amount of resources that all steps together cannot use up

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


def fetch_module(_source):
    """Return the module's text. All random workflows use the same module."""
    return MODULE


def random_module(random):
    """Return a valid module in the wire format. Its inputs are those of ``MODULE``."""
    return _Generator(random, containers=True).module()


def module_text(module):
    """Return a module in the wire format as YAML. Braces are escaped for the template engine."""
    return to_yaml(module).replace("{{", '{{ "{{" }}')


def random_step(random):
    """Return a step with few nested steps, for a job with ``HUGE`` resources."""
    depth = random.choice([MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH])
    return _Generator(random, containers=True).step(depth)


def random_mapping(random, *, host_only=False):
    """Return a valid workflow in the wire format.

    Args:
        random: The source of randomness.
        host_only: Whether the workflow has no networks, no containers, no input and no output.
    """
    generator = _Generator(random, containers=not host_only)
    if host_only:
        return generator.workflow()
    return generator.workflow() | generator.data()


class _Generator:
    """Generates the parts of one workflow."""

    def __init__(self, random, *, containers):
        self.random = random
        self.containers = containers
        self.handle_count = 0
        self.network = None
        self.gpus = 0

    def workflow(self):
        resources = {
            "tasks": HUGE,
            "cpusPerTask": self.number(1, 4),
            "memPerCpu": self.number(1, 64),
        }
        job = {"resources": resources | self.subset(0.2, gpus=lambda: HUGE)}
        self.gpus = job["resources"].get("gpus", 0)
        if self.containers and self.random.random() < 0.3:
            self.network = self.name()
            job["virtualNetworks"] = [{"name": self.network, "gatewayAddress": "10.0.0.1/8"}]
        job["steps"] = self.steps(0)
        return job | self.subset(
            env=self.env, enableLogging=self.boolean, disableLogMarkers=self.boolean
        )

    def data(self):
        data = self.subset(
            0.2, input=self.storage, output=self.storage, inputMode=lambda: self.number(0, 511)
        )
        return data | self.subset(0.2, continuousOutputSync=self.boolean)

    def storage(self):
        return self.subset(0.5, http=lambda: {"url": self.random.choice(URLS)}, s3=self.s3)

    def s3(self):
        return {
            "region": "eu", "bucketUrl": "s3://bucket",
            "path": f"/{self.name()}{self.random.choice(['', '/'])}",
            "accessKeyId": f"key{self.name()}", "secretAccessKey": f"{self.name()}/b+c=",
            "endpointUrl": "https://store.example:9000",
            **self.subset(deleteSync=self.boolean),
        }  # fmt: skip

    def steps(self, depth):
        steps, handles = [], []
        for _ in range(self.number(1, 3)):
            step = self.step(depth)
            if handles and self.boolean():
                step["dependsOn"] = [self.random.choice(handles).upper()]
            if self.boolean() and "launch" in step:
                self.handle_count += 1
                handle = f"h{self.handle_count}"
                step["launch"]["handleName"] = handle
                handles.append(handle)
            steps.append(step)
        return steps

    def step(self, depth):
        may_nest = depth < MAX_DEPTH
        step_type = self.random.choice(STEP_TYPES) if may_nest else "run"
        step = self.subset(0.3, name=self.name)
        step |= self.subset(0.2, **{"if": lambda: self.random.choice(CONDITIONS)})
        if may_nest:
            handlers = dict.fromkeys(("catch", "finally"), lambda: self.steps(depth + 1))
            step |= self.subset(0.15, **handlers)
        match step_type:
            case "run":
                step["run"] = self.run()
            case "steps":
                step["steps"] = self.steps(depth + 1)
            case "for":
                step["for"] = self.loop(depth)
            case "launch":
                signal = self.subset(
                    signalOnParentStepExit=lambda: self.random.choice([0, 2, 9, 15])
                )
                step["launch"] = {"steps": self.steps(depth + 1), **signal}
            case "use":
                step["use"] = self.use(depth)
        return step

    def loop(self, depth):
        return {
            "parallel": self.boolean(),
            "steps": self.steps(depth + 1),
            **self.iterations(),
        }

    def module(self):
        default = self.subset(default=self.text)
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
        return use | self.subset(exportEnvAs=lambda: "OUTER", steps=self.steps_for_module)

    def steps_for_module(self):
        return [self.step(MAX_DEPTH), self.step(MAX_DEPTH)]

    def iterations(self):
        if self.boolean():
            return {"items": [self.text() for _ in range(self.number(0, 3))]}
        numbers = {"begin": self.number(-1, 1), "end": self.number(-1, 2)}
        return {"range": numbers | self.subset(increment=lambda: self.number(-2, 2))}

    def run(self):
        run = {"command": self.text() or "true"} | self.run_fields()
        if not self.containers:
            return run
        run |= self.subset(
            0.2,
            network=lambda: self.random.choice(["host", "slirp4netns", "pasta"]),
            dns=lambda: ["1.1.1.1", "::1"],
            customNetworkInterfaces=self.interfaces,
        )
        if self.random.random() < 0.7:
            return run
        run |= {"container": self.container()}
        # str() returns an empty text. With an empty command, the image's own command runs.
        return run | self.subset(0.2, command=str, shell=lambda: "/bin/ash")

    def run_fields(self):
        fields = self.subset(0.2, resources=self.step_resources)
        fields |= self.subset(
            0.3,
            env=self.env,
            workDir=lambda: f"/{self.name()}",
            disableCpuBinding=self.boolean,
            shell=lambda: self.random.choice(["/bin/sh", "/bin/bash"]),
        )
        # int() returns 0.
        return fields | self.subset(
            0.2, mpi=lambda: self.random.choice(["none", "pmix_v4", "pmi2"]), mapUid=int, mapGid=int
        )

    def step_resources(self):
        gpus = {"gpusPerTask": lambda: self.number(0, 2)} if self.gpus else {}
        fields = dict.fromkeys(("tasks", "cpusPerTask", "memPerCpu"), lambda: self.number(1, 4))
        return self.subset(**fields, **gpus)

    def container(self):
        container = {"image": self.random.choice(["debian:12", "a/b:C", f"/x{self.name()}.sif"])}
        if self.boolean():
            container |= {
                "registry": "reg.example:5000",
                "username": "me",
                "password": self.random.choice(PASSWORDS),
            }
        flags = ("apptainer", "deepsquareHosted", "x11", "mountHome", "readOnlyRootFS")
        container |= self.subset(0.3, mounts=self.mounts)
        return container | self.subset(0.3, **dict.fromkeys(flags, self.boolean))

    def interfaces(self):
        key = "A" * 43 + "="
        peer = {
            "publicKey": key,
            "allowedIPs": ["0.0.0.0/0", "::/0"],
            "endpoint": "[::1]:5",
            "preSharedKey": key,
        }
        peer |= self.subset(persistentKeepalive=lambda: self.number(0, 65535))
        choices = [
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
            choices.append({"vnet": {"name": self.network, "address": "10.1.2.3/8"}})
        return [self.random.choice(choices) for _ in range(self.number(0, 3))]

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

    def boolean(self):
        return self.random.random() < 0.5

    def number(self, minimum, maximum):
        return self.random.randint(minimum, maximum)

    def subset(self, probability=0.5, **generators):
        """Return a random subset of fields.

        Args:
            probability: The probability of each field.
            generators: A function for each field that returns the field's value.
        """
        fields = {}
        for name, generate in generators.items():
            if self.random.random() < probability:
                fields[name] = generate()
        return fields
