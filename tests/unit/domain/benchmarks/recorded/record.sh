#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the benchmark programs in the working directory, which must be empty, and writes their
# outputs there. Needs Debian 13 with hpcc, python3-mpi4py, fio and iperf3, and the path of the
# control plane's package in PYTHONPATH. librespeed.json needs a LibreSpeed server in addition:
# librespeed-cli --json --local-json servers.json --server 1 --duration 3 --concurrent 1
set -euo pipefail

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

render() {
    python3 -c "from gridstead.domain.benchmarks.outputs import hpcc, messages, storage; print($1, end='')"
}

render 'hpcc.render(hpcc.HpccInput(order=384, block_size=192, rows=1, columns=2))' >hpccinf.txt
mpirun --oversubscribe -n 2 hpcc
sed -i '/^Begin of HPL section/,$!d' hpccoutf.txt

mpirun --oversubscribe -n 2 \
    python3 -m mpi4py.bench pingpong --min-size 1 --max-size 4194304 >pingpong.txt
render messages.ALL_TO_ALL_SCRIPT >alltoall.py
mpirun --oversubscribe -n 3 python3 alltoall.py >alltoall.txt

mkdir files
render "storage.render_fio('$PWD/files', size_mib=64)" >storage.fio
fio --output-format=json --output=fio.json storage.fio

iperf3 --server --one-off --daemon --port 5999
sleep 1
iperf3 --client 127.0.0.1 --port 5999 --time 2 --json >iperf3-up.json
iperf3 --server --one-off --daemon --port 5999
sleep 1
iperf3 --client 127.0.0.1 --port 5999 --time 2 --reverse --json >iperf3-down.json
iperf3 --client 127.0.0.1 --port 5998 --json >iperf3-refused.json || true # no server listens

lscpu --json >lscpu.json
