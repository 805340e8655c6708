#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside the image: fills the wheelhouse from hashed lock files, and installs each of them in
# its directory as the roles do.
# Usage: layer_wheels.sh [LOCK DIRECTORY]...
set -eu

wheels=/var/cache/gridstead/wheels
python3 -m venv /tmp/fetch
mkdir -p "$wheels"
while [ $# -gt 0 ]; do
    /tmp/fetch/bin/python -m pip download --quiet --require-hashes --only-binary=:all: \
        --dest "$wheels" --requirement "$1"
    # The role finds the environment as it would have made it, on every host and without its minute
    # of work.
    bash /mnt/install-environment.sh "$2" "$1" "$wheels"
    shift 2
done
rm -rf /tmp/fetch /root/.cache
