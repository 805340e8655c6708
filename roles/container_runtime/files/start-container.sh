#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts a container from programs of the host, as user nobody, and removes it afterwards.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
chmod 755 "$place"
mkdir -p "$place"/image/{bin,dev,etc,proc,sys,tmp,var/tmp}
for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
  install -D -m 755 "$file" "$place/image$file"
done
printf 'nobody:x:65534:65534::/:/bin/sh\n' >"$place/image/etc/passwd"
printf 'nogroup:x:65534:\n' >"$place/image/etc/group"
mksquashfs "$place/image" "$place/image.sqsh" -quiet -no-progress -all-root >/dev/null
cd /
# shellcheck disable=SC2016 # the container expands it
output=$(HOME=$place setpriv --reuid=65534 --regid=65534 --clear-groups \
  apptainer --quiet exec --contain --no-home --no-eval --writable-tmpfs --pwd / \
  "$place/image.sqsh" /bin/sh -c 'echo works >/written && read -r it </written && echo "$it"')
[[ $output == works ]]
