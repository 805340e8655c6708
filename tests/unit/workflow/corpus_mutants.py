# SPDX-License-Identifier: Apache-2.0
"""Mutants of the files of the corpus and of its modules, and what each mutant must not do.

A mutant is read and rendered. It must be accepted or refused, take at most MAX_CPU_S, and have no
side effects. The script of an accepted mutant runs on a simulated node whose ``srun`` runs nothing.
A hostile text of the mutant must not be executed.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fakes.effects import record_effects
from tests.unit.workflow.corpus import FILES, FOLDER, expectation
from tests.unit.workflow.corpus_node import CorpusNode
from tests.unit.workflow.fields import paths_in, value_at
from tests.unit.workflow.injections import hostile_texts
from tests.unit.workflow.mutants import damage_text, mutant, writable
from tests.unit.workflow.shell_checks import bash_errors
from tests.unit.workflow.yaml_file import to_yaml

from gridstead.errors import InvalidInput, InvalidWorkflow
from gridstead.workflow.document import load
from gridstead.workflow.parse import check_workflow, from_graphql
from gridstead.workflow.render import render
from gridstead.workflow.schema import Step, Workflow

MAX_CPU_S = 2
RUN_TIMEOUT_S = 20
MODULE_FOLDER = FOLDER / "modules"
TEMPLATE_FRAGMENTS = [
    "{{", "}}", "{{ .Job }}", "{{ . | toYaml }}", "{{ .Step.Use.Steps | toYaml }}", "{{ .No.X }}",
    "{{ range .Job.Steps }}", "{{ end }}", "{{ else }}", "{{ break }}", "{{/* x */}}", "{{- -}}",
    '{{ repeat 100000000 "x" }}', "{{ range until 100000000 }}x{{ end }}",
    '{{ printf "%9999999d" 1 }}', '{{ printf "%.9999999f" 1.0 }}', "{{ index .Job.Steps 99 }}",
    '{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}', '{{ template "no" . }}',
    '{{ define "a" }}{{ template "a" }}{{ template "a" }}{{ end }}{{ template "a" }}',
    '{{ regexMatch "(a+)+$" "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" }}',
    '{{ splitList "" (repeat 99999 "x") | join "," }}', "{{ mul 9223372036854775807 9 }}",
    '{{ "x" | indent 99999999 }}', "{{ now }}", '{{ env "HOME" }}', "{{ div 1 0 }}",
]  # fmt: skip


@dataclass(slots=True)
class Faults:
    """What the mutants did that they must not do, and the slowest mutant as (seconds, seed)."""

    messages: list[str] = field(default_factory=list)
    accepted: int = 0
    started: int = 0
    slowest: tuple[float, int] = (0.0, 0)


def check_mutant(seed: int, folder: Path, faults: Faults, *, run: bool) -> None:
    """Read, render and run the mutant of a seed. Add to ``faults`` what it must not do.

    Args:
        seed: Selects the file, the module and the changes.
        folder: An empty folder for the simulated node.
        faults: What the mutants so far have done.
        run: Whether an accepted mutant runs.
    """
    random = Random(seed)
    file = random.choice(FILES)
    corpus_file = CorpusFile(file, seed, folder)
    source = _mutant_of(random, corpus_file)
    fetch_module = _Modules(random, corpus_file).text
    messages: list[str] = []
    workflow = None
    started_s = time.process_time()
    with record_effects() as effects:
        try:
            workflow, script = _read_and_render(source, fetch_module)
        except InvalidWorkflow:
            pass  # a mutant may be invalid
        except Exception as err:  # noqa: BLE001 # the test reports it as a fault
            messages.append(f"{type(err).__name__}: {err}")
    duration_s = time.process_time() - started_s
    if duration_s > MAX_CPU_S:
        messages.append(f"took {duration_s:.1f} s of processor time")
    messages += [f"has the side effect {effect}" for effect in effects]
    if workflow is not None:
        faults.accepted += 1
        faults.started += run
        messages += _check_script(workflow, script, corpus_file, run=run)
    faults.slowest = max(faults.slowest, (duration_s, seed))
    faults.messages += [f"seed {seed} ({file.name}): {message}" for message in messages]


def _read_and_render(source, fetch_module) -> tuple[Workflow, str]:
    if isinstance(source, str):
        workflow = check_workflow(source, fetch_module=fetch_module).workflow
    else:
        workflow = from_graphql(source, fetch_module=fetch_module)
    return workflow, render(workflow)


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """The file of a mutant, the seed of the mutant, and an empty folder."""

    file: Path
    seed: int
    folder: Path

    @property
    def owned(self) -> Path:
        """Return the file that a hostile text creates if it is executed."""
        return self.folder / "owned"


def _check_script(
    workflow: Workflow, script: str, corpus_file: CorpusFile, *, run: bool
) -> list[str]:
    """Check the syntax of a script, and run it. Return what it must not do."""
    path = corpus_file.folder / "script"
    path.write_text(script)
    if error := bash_errors([path]):
        return [f"bash: {error}"]
    return _run(workflow, corpus_file) if run else []


def _mutant_of(random: Random, corpus_file: CorpusFile):
    """Return the text of a file, or the mapping of a request."""
    text = corpus_file.file.read_text()
    kind = random.randrange(4)
    if kind == 0:
        for _ in range(random.randint(1, 4)):
            text = damage_text(random, text)
        return text
    mapping = load(text).value
    mapping = mapping.get("job", mapping)
    if kind == 1:
        mapping = mutant(random, mapping)
    else:
        _insert_hostile_texts(random, mapping, corpus_file)
    if random.random() < 0.5:
        return to_yaml(writable(mapping))
    return mapping


def _insert_hostile_texts(random: Random, mapping, corpus_file: CorpusFile) -> None:
    """Replace up to three texts of a workflow, or insert a hostile text before or after them."""
    paths = [path for path in paths_in(mapping) if isinstance(value_at(mapping, path), str)]
    for path in random.sample(paths, min(len(paths), random.randint(1, 3))):
        text = random.choice(hostile_texts(corpus_file.owned))
        original = value_at(mapping, path)
        texts = (text, text + original, original + text)
        value_at(mapping, path[:-1])[path[-1]] = random.choice(texts)


class _Modules:
    """The modules of the corpus. Two thirds of them are mutants too."""

    def __init__(self, random: Random, corpus_file: CorpusFile) -> None:
        self.random = random
        self.fragments = [*TEMPLATE_FRAGMENTS, *hostile_texts(corpus_file.owned)]

    def text(self, source) -> str:
        file = MODULE_FOLDER / f"{str(source).partition('@')[0].rpartition('/')[2]}.yaml"
        if file not in MODULE_FOLDER.iterdir():
            raise InvalidInput("there is no such public repository")
        text = file.read_text()
        match self.random.randrange(3):
            case 0:
                text = damage_text(self.random, text)
            case 1:
                position = self.random.randrange(len(text))
                fragment = self.random.choice(self.fragments)
                text = text[:position] + fragment + text[position:]
        return text


def _run(workflow: Workflow, corpus_file: CorpusFile) -> list[str]:
    """Run the script of a mutant. Return what it must not do."""
    if any(str(corpus_file.owned) in condition for condition in _conditions(workflow.steps)):
        return []  # a condition is code
    root = corpus_file.folder / "node"
    root.mkdir()
    node = CorpusNode(root, expectation(corpus_file.file))
    # Half of the steps fail. Code 1 would mean that Slurm did not create the step.
    node.add_program("srun", f"#!/bin/sh\nexit {corpus_file.seed % 2 * 2}\n")
    with suppress(subprocess.TimeoutExpired):  # for example a loop with very many rounds
        node.run(workflow, timeout_s=RUN_TIMEOUT_S)
    return ["a hostile text was executed"] if corpus_file.owned.exists() else []


def _conditions(steps: tuple[Step, ...]):
    """Yield the conditions of all steps, including steps of modules."""
    for step in steps:
        yield step.if_ or ""
        lists = [step.steps, step.catch, step.finally_]
        lists += [inner.steps for inner in (step.for_, step.launch) if inner]
        if step.use and hasattr(step.use, "module"):
            lists.append(step.use.module.steps)
        for inner_steps in lists:
            yield from _conditions(inner_steps)
