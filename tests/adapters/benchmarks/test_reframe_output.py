# SPDX-License-Identifier: Apache-2.0
"""Tests of reading the progress from the output of ReFrame. test_steps.py runs the real one."""

from tests.fakes.benchmarks import RecordingWatch

from gridstead.adapters.benchmarks.reframe_output import watch_output

# ReFrame 4.10.4
OUTPUT = b"""[----------] start processing checks
[ RUN      ] BenchmarkStep %step=compute-n1.site /e1e5166d @site:benchmarks+none
[ RUN      ] BenchmarkStep %step=storage-n1 /e2957720 @site:benchmarks+none
[     FAIL ] ( 1/12) BenchmarkStep %step=storage-n1 /e2957720 @site:benchmarks+none
==> test failed during 'sanity': test staged in '/stage/BenchmarkStep_e2957720'
[       OK ] (12/12) BenchmarkStep %step=compute-n1.site /e1e5166d @site:benchmarks+none
[----------] all spawned checks have finished
[  FAILED  ] Ran 2/2 test case(s) from 2 check(s) (1 failure(s))
FAILURE INFO for BenchmarkStep %step=storage-n1 (run: 1/1)
\xff
"""


def test_each_start_and_end_is_reported_once_and_the_output_is_returned():
    watch = RecordingWatch()

    output = watch_output(OUTPUT.splitlines(keepends=True), watch)

    assert output == OUTPUT
    assert watch.events == [
        ("started", "compute-n1.site"),
        ("started", "storage-n1"),
        ("failed", "storage-n1"),
        ("ended", "compute-n1.site"),
    ]
