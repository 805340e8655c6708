#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside the image: fetches the packages named as arguments with what they need, and installs
# nothing. A host without a way out finds them in apt's own cache.
set -eu

# shellcheck source=molecule/lab/gridstead_lab/other_suites.sh
. /mnt/other_suites.sh
apt-get -q -y --no-install-recommends --download-only install "$@"
# Every host would make these 90 MB itself, at its first use of apt.
apt-cache -q gencaches
