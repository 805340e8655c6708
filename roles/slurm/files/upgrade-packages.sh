#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts these versions of packages in place of others. Configuration files stay as they are, and no
# package starts or restarts a daemon: whoever calls this does, in an order that the packages do not
# know.
# Usage: upgrade-packages.sh [NAME=VERSION...]; first it finishes what another run left half done.
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

# Of a run that was killed.
allow_daemons
trap allow_daemons EXIT
# A policy of the site stays in force.
if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy.new"
    chmod 0755 "$policy.new"
    mv "$policy.new" "$policy"
fi
dpkg --configure --pending
if (($# == 0)); then
    exit
fi
# apt takes what is named for wanted; what came as somebody's need must go with that one.
mapfile -t needed < <(apt-mark showauto "${@%%=*}")
apt-get "${options[@]}" install "$@"
if ((${#needed[@]})); then
    apt-mark auto "${needed[@]}"
fi
