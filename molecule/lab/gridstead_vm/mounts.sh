# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by programs that run commands in the root folder of the guest before its first boot.

# Mounts what programs need in a root folder. The folder becomes a mount point, because the build of
# the lab's image changes the propagation of its own root.
mount_system() {
    mount --bind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount -t sysfs sysfs "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/run"
    rm -f "$1/etc/resolv.conf"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
}
