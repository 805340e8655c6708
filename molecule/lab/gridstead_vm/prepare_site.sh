#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of the roles in the root folder of the guest before its first boot. As on any
# Debian, their services are enabled.
# Usage: prepare_site.sh ROOT FILES PACKAGE...
# FILES contains other_suites.sh.
set -eu

# shellcheck source=molecule/lab/gridstead_vm/mounts.sh
. "${0%/*}/mounts.sh"
root=$1 files=$2
shift 2
mount_system "$root"
mount --bind "$files" "$root/mnt"
forbid_starts "$root"
# shellcheck disable=SC2016 # the shell in the root folder expands the arguments
chroot "$root" sh -euc '. /mnt/other_suites.sh
apt-get -q -y --no-install-recommends install "$@"
apt-get -q clean' install "$@"
allow_starts "$root"
