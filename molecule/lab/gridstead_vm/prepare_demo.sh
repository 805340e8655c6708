#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the slow steps of `make demo` in the root folder of the guest before its first boot: the
# installation of the packages, and the build of the lab's image.
# Usage: prepare_demo.sh ROOT CHECKOUT
set -eu

# shellcheck source=molecule/lab/gridstead_vm/mounts.sh
. "${0%/*}/mounts.sh"
mount_system "$1"
mount -t tmpfs tmpfs "$1/tmp"
chroot "$1" make -C "$2" setup
chroot "$1" "$2/.venv/bin/python" "$2/molecule/lab/lab.py" image
