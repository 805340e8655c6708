# SPDX-License-Identifier: Apache-2.0
"""A simulated node that runs the files of the corpus.

Containers run their commands on the host, so the script has the path of the job's directory in
place of ``/deepsquare``.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.unit.workflow import networks
from tests.unit.workflow.corpus import Expectation
from tests.unit.workflow.node import JOB_NAME, RCLONE, SRUN, Node
from tests.unit.workflow.runtimes import APPTAINER, ENROOT, install

from gridstead.workflow.render import render
from gridstead.workflow.schema import S3Data, Workflow

# Creates each file that follows -o, -O or --output, and prints its name and its arguments.
PROGRAM = r"""#!/bin/bash
echo "@NAME@ $*"
while (($#)); do
  case $1 in
  -o | -O | --output)
    mkdir -p -- "$(dirname -- "$2")" && echo "made by @NAME@" >"$2"
    shift
    ;;
  esac
  shift
done
exit @CODE@
"""
# Downloads a table, or an archive with this table. Prints a link if it uploads a file.
CURL = r"""#!/bin/bash
target=/dev/stdout
while (($#)); do
  case $1 in
  -o | --output) target=$2 && shift ;;
  -O) target=download ;;
  -T | --upload-file)
    cp -- "$2" "@HOME@/uploaded" && echo https://files.example.org/d/1 && exit
    ;;
  esac
  shift
done
printf 'sample,value\na,1\nb,2\n' >"@HOME@/table.csv"
case $target in
*.tar.gz) tar -czf "$target" -C "@HOME@" table.csv ;;
*.zip) cd "@HOME@" && python3 -m zipfile -c "$OLDPWD/$target" table.csv ;;
*) cat "@HOME@/table.csv" >"$target" ;;
esac
"""


# Steps start at the same time, so the name of a record is the process id.
SRUN_OF_PARALLEL_STEPS = SRUN.replace("${#calls[@]}", "$$")


class CorpusNode(Node):
    """A node with every program that the files need."""

    def __init__(self, root: Path, expected: Expectation) -> None:
        super().__init__(root)
        networks.install(self)
        install(self, "apptainer", APPTAINER)
        install(self, "enroot", ENROOT)
        self.add_program("srun", SRUN_OF_PARALLEL_STEPS)
        self.add_program("rclone", RCLONE)
        self.add_program("curl", CURL.replace("@HOME@", str(self.home)))
        for name, code in expected.programs.items():
            text = PROGRAM.replace("@NAME@", name).replace("@CODE@", str(code))
            self.add_program(name, text)
        for name in expected.without:
            (self.bin / name).unlink()
        user = f"user-{os.getuid()}"
        for folder in (f"persistent/{user}", "world-tmp", f"disk/tmp/{user}", "disk/world-tmp"):
            (root / "cache" / folder).mkdir(parents=True)

    @property
    def directory(self) -> Path:
        """Return the directory of the job."""
        return self.root / "cache/shared" / str(os.getuid()) / f"{JOB_NAME}.42"

    def run_file(self, workflow: Workflow) -> tuple[int, str]:
        """Run the workflow of a file and return its exit code and output."""
        self._fill_store(workflow)
        text = render(workflow, paths=self.script_paths)
        software = self.root / "software"
        text = text.replace("/deepsquare", str(self.directory))
        text = text.replace("/opt/software", str(software))
        text = text.replace("/bin/ash", "/bin/sh")  # the host may have no ash
        for image in ("registry-1.docker.io/library/blender:4.1", "registry.example.org/gmx:2024"):
            (software / image).mkdir(parents=True)
        return self.run(workflow, text=text)

    def _fill_store(self, workflow: Workflow) -> None:
        """Put a table at the path of the input in S3."""
        if not (workflow.input and workflow.input.s3):
            return
        file = self.home / "store" / _name_in_store(workflow.input.s3)
        file.parent.mkdir(parents=True)
        file.write_text("sample,value\na,1\nb,2\n")

    @property
    def started_steps(self) -> Counter[str]:
        """Return how many steps of each name Slurm started."""
        options = (word for words in self.srun_calls for word in words)
        prefix = "--job-name="
        return Counter(word.removeprefix(prefix) for word in options if word.startswith(prefix))


def _name_in_store(data: S3Data) -> str:
    name = f"{data.bucket_url.removeprefix('s3://')}/{data.path.strip('/')}"
    return f"{name}/table.csv" if data.path.endswith("/") else f"{name}.csv"
