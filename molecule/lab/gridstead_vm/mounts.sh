# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by programs that run commands in the root folder of the guest before its first boot.

# Mounts what programs need in a root folder. The folder itself becomes a mount point, because the
# build of the lab's image changes the mount propagation of its root, which must be a mount point.
mount_system() {
    mount --bind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount -t sysfs sysfs "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/run"
    rm -f "$1/etc/resolv.conf"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
}

# Packages do not start their services in a root folder.
forbid_starts() {
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod 0755 "$1/usr/sbin/policy-rc.d"
}

allow_starts() {
    rm -f "$1/usr/sbin/policy-rc.d"
}
