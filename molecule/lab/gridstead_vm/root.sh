#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Creates the root folder of a stock Debian 13. Runs in its own mount namespace, so its mounts end
# with it.
# Usage: root.sh ROOT MIRROR FILES PACKAGE...
# FILES contains 0000lab.list and 99machine: the apt sources, and the settings with which apt reaches
# them from this machine.
set -eu

root=$1 mirror=$2 files=$3
shift 3
debootstrap --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    trixie "$root" "$mirror"
rm -f "$root/etc/apt/sources.list"
cp "$files/0000lab.list" "$root/etc/apt/sources.list.d/"
cp "$files/99machine" "$root/etc/apt/apt.conf.d/"
# shellcheck source=molecule/lab/gridstead_vm/mounts.sh
. "${0%/*}/mounts.sh"
mount_system "$root"
forbid_starts "$root"
chroot "$root" apt-get -q update
chroot "$root" apt-get -q -y --no-install-recommends dist-upgrade
chroot "$root" apt-get -q -y --no-install-recommends install "$@"
chroot "$root" systemctl enable systemd-networkd.service
allow_starts "$root"
