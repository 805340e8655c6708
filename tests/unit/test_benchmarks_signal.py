# SPDX-License-Identifier: Apache-2.0
"""Tests of the signal that stops `gridstead benchmarks run`."""

import signal
import subprocess
import sys

# A run whose measurement is interrupted by SIGTERM.
INTERRUPTED_RUN = """
import os, signal
from gridstead.wiring import benchmarks

class Session:
    def __init__(self, *arguments, **options):
        pass

    def run(self, selection):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            print("jobs are cancelled", flush=True)

benchmarks.BenchmarkSession = Session
benchmarks._runner = lambda settings, progress: settings
settings = type("Settings", (), {})()
settings.report_directory = settings.request_directory = settings.measure = None
for name in ("RunProgress", "ProgressFile", "RunLockFile", "RequestFile"):
    setattr(benchmarks, name, lambda *arguments: None)
benchmarks.run(settings)
"""


def test_an_interrupted_run_ends_by_the_signal_after_it_has_cleaned_up():
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_RUN], capture_output=True, text=True, check=False
    )

    assert result.returncode == -signal.SIGTERM, result.stderr
    assert result.stdout.startswith("jobs are cancelled\n")
    assert "benchmarks_interrupted" in result.stdout
