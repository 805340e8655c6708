#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Creates the root folder of a stock Debian 13. Runs in its own mount namespace, so its mounts end
# with it.
# Usage: root.sh ROOT MIRROR FILES PACKAGE...
# FILES contains machine.list and 99machine: the apt sources, and the settings with which apt reaches
# them from this machine.
set -eu

root=$1 mirror=$2 files=$3
shift 3
debootstrap --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    trixie "$root" "$mirror"
rm -f "$root/etc/apt/sources.list"
cp "$files/machine.list" "$root/etc/apt/sources.list.d/"
cp "$files/99machine" "$root/etc/apt/apt.conf.d/"
# shellcheck source=molecule/lab/gridstead_vm/mounts.sh
. "${0%/*}/mounts.sh"
mount_system "$root"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 0755 "$root/usr/sbin/policy-rc.d"
chroot "$root" apt-get -q update
chroot "$root" apt-get -q -y --no-install-recommends dist-upgrade
chroot "$root" apt-get -q -y --no-install-recommends install "$@"
chroot "$root" systemctl enable systemd-networkd.service
rm -f "$root/usr/sbin/policy-rc.d"
