#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Check that an unprivileged user can run a container: create an image from /bin/sh of the host, run
# it as user nobody, and remove the image.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf -- "$directory"' EXIT
chmod 755 "$directory"
mkdir -p "$directory"/image/{bin,dev,etc,proc,sys,tmp,var/tmp}
for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
  install -D -m 755 "$file" "$directory/image$file"
done
printf 'nobody:x:65534:65534::/:/bin/sh\n' >"$directory/image/etc/passwd"
printf 'nogroup:x:65534:\n' >"$directory/image/etc/group"
mksquashfs "$directory/image" "$directory/image.sqsh" -quiet -no-progress -all-root >/dev/null
cd /
# shellcheck disable=SC2016 # the container expands it
output=$(HOME=$directory setpriv --reuid=65534 --regid=65534 --clear-groups \
  apptainer --quiet exec --contain --no-home --no-eval --writable-tmpfs --pwd / \
  "$directory/image.sqsh" /bin/sh -c 'echo works >/written && read -r it </written && echo "$it"')
[[ $output == works ]]
