#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Upgrade packages to the given versions. Configuration files are not changed. No package starts or
# restarts a daemon: the caller restarts the daemons in the right order.
# Finish an interrupted upgrade of an earlier run first.
# Usage: upgrade-packages.sh [NAME=VERSION...]
set -euo pipefail

readonly policy=/usr/sbin/policy-rc.d mark='# gridstead: an upgrade is under way'
readonly options=(
    --yes --no-remove --no-install-recommends --only-upgrade --option=DPkg::Lock::Timeout=60
    --option=Dpkg::Options::=--force-confdef --option=Dpkg::Options::=--force-confold
)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

allow_daemons() {
    if grep --quiet --no-messages --line-regexp "$mark" "$policy"; then
        rm "$policy"
    fi
}

# Remove the policy of a run that was killed.
allow_daemons
trap allow_daemons EXIT
# Status 101 of policy-rc.d forbids packages to start daemons. A policy of the site is not replaced.
if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy.new"
    chmod 0755 "$policy.new"
    mv "$policy.new" "$policy"
fi
dpkg --configure --pending
if (($# == 0)); then
    exit
fi
# apt marks named packages as manually installed. Mark the dependencies as automatically installed
# again, so that apt removes them together with the packages that need them.
mapfile -t dependencies < <(apt-mark showauto "${@%%=*}")
apt-get "${options[@]}" install "$@"
if ((${#dependencies[@]})); then
    apt-mark auto "${dependencies[@]}"
fi
