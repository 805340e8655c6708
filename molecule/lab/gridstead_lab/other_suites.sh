# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by layers of packages. NAME/CODENAME among the arguments comes from another suite of the
# same mirror; what it needs comes from the lab's own. Afterwards apt knows that suite, and the
# arguments are names alone.

lists=/etc/apt/sources.list.d
for word in "$@"; do
  shift
  set -- "$@" "${word%/*}"
  if [ "$word" = "${word%/*}" ]; then continue; fi
  sed -n "s| trixie main\$| ${word#*/} main|p" "$lists/0000lab.list" > "$lists/other.list"
  printf 'Package: %s\nPin: release n=%s\nPin-Priority: %d\n\n' \
    '*' "${word#*/}" 50 "${word%/*}" "${word#*/}" 500 >> /etc/apt/preferences.d/other
done
apt-get -q update
