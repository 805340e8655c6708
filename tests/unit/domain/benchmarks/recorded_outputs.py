# SPDX-License-Identifier: Apache-2.0
"""Each output of a program in the tests, with the function that reads it and returns labels."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.unit.domain.benchmarks import written

from gridstead.domain.benchmarks.outputs import hpcc, hpl_ai, internet, messages, processor, storage
from gridstead.domain.benchmarks.outputs.reading import number_label

FIO_SIZE_MIB = 64
RECORDED = Path(__file__).parent / "recorded"
HPCC_RUN = hpcc.HpccInput(order=384, block_size=192, rows=1, columns=2)
# The last line of hpccoutf.txt that the parser needs.
HPCC_END = "End of Summary section.\n"


def recorded(name):
    return (RECORDED / name).read_text()


@dataclass(frozen=True)
class Case:
    """An output, and how its labels are read. ``needed`` is the part that must be complete."""

    text: str
    labels: Callable
    needed: str


def case(text, labels, *, end=None):
    needed = text if end is None else text[: text.index(end) + len(end)]
    return Case(text=text, labels=labels, needed=needed)


def hpcc_labels(text):
    return (number_label("compute.gflops", hpcc.parse(text, HPCC_RUN).gflops),)


def latency_labels(text):
    return messages.labels(messages.parse_osu(text, written.OSU_BANDWIDTH), None, nodes=2)


def bandwidth_labels(text):
    return messages.labels(messages.parse_osu(written.OSU_LATENCY, text), None, nodes=2)


def pingpong_labels(text):
    return messages.labels(messages.parse_pingpong(text), None, nodes=2)


def all_to_all_labels(text):
    return messages.labels(None, messages.parse_all_to_all(text), nodes=2)


def fio_labels(text):
    return storage.labels("scratch", [storage.parse_fio(text, size_mib=FIO_SIZE_MIB)])


def ior_labels(text):
    return storage.labels("shared-tmp", [storage.parse_ior(text)])


def librespeed_labels(text):
    return internet.labels(internet.parse_librespeed(text))


def iperf3_upload_labels(text):
    return internet.labels(internet.parse_iperf3(text, recorded("iperf3-down.json")))


def iperf3_download_labels(text):
    return internet.labels(internet.parse_iperf3(recorded("iperf3-up.json"), text))


def ookla_labels(text):
    return internet.labels(internet.parse_ookla(text))


def hpl_ai_labels(text):
    return hpl_ai.labels(hpl_ai.parse(text, gpus=4), ("NVIDIA A100-SXM4-40GB",))


def gpu_labels(text):
    return hpl_ai.labels(None, hpl_ai.parse_names(text))


def lscpu_labels(text):
    return processor.labels([processor.parse(text, None)])


CASES = {
    "hpcc": case(recorded("hpccoutf.txt"), hpcc_labels, end=HPCC_END),
    "osu_latency": case(written.OSU_LATENCY, latency_labels),
    "osu_bw": case(written.OSU_BANDWIDTH, bandwidth_labels),
    "osu_bibw": case(written.OSU_BIDIRECTIONAL, bandwidth_labels),
    "osu_alltoall": case(written.OSU_ALL_TO_ALL, all_to_all_labels),
    "pingpong": case(recorded("pingpong.txt"), pingpong_labels),
    "alltoall": case(recorded("alltoall.txt"), all_to_all_labels),
    "fio": case(recorded("fio.json"), fio_labels, end="\n}"),
    "ior": case(written.IOR, ior_labels),
    "librespeed": case(recorded("librespeed.json"), librespeed_labels),
    "iperf3 upload": case(recorded("iperf3-up.json"), iperf3_upload_labels, end="\n}"),
    "iperf3 download": case(recorded("iperf3-down.json"), iperf3_download_labels, end="\n}"),
    "ookla": case(written.OOKLA, ookla_labels, end="}\n"),
    "hpl_ai": case(written.HPL_AI, hpl_ai_labels),
    "nvidia-smi": case(written.GPU_NAMES, gpu_labels),
    "lscpu": case(recorded("lscpu.json"), lscpu_labels, end="\n}"),
}
