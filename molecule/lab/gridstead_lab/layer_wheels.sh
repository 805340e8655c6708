#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside the image: fills the wheelhouse from a hashed lock file, and installs it as role
# control_plane does.
# Usage: layer_wheels.sh LOCK
set -eu

wheels=/var/cache/gridstead/wheels
python3 -m venv /tmp/fetch
mkdir -p "$wheels"
/tmp/fetch/bin/python -m pip download --quiet --require-hashes --only-binary=:all: --dest "$wheels" --requirement "$1"
rm -rf /tmp/fetch
# The role finds the environment as it would have made it, on every host and without its minute of
# work.
bash /mnt/install-environment.sh /opt/gridstead "$1" "$wheels"
rm -rf /root/.cache
