#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside the image: fills the wheelhouse from hashed lock files, given as arguments.
set -eu

wheels=/var/cache/gridstead/wheels
python3 -m venv /tmp/fetch
mkdir -p "$wheels"
for lock in "$@"; do
    /tmp/fetch/bin/python -m pip download --quiet --require-hashes --only-binary=:all: \
        --dest "$wheels" --requirement "$lock"
done
rm -rf /tmp/fetch /root/.cache
