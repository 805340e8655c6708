#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Make the next authority the current authority. Keep the certificate of the replaced authority as
# old.crt. An interrupted run can be repeated.
#
#   change-authority.sh DIRECTORY

set -euo pipefail

cd "${1:?the directory is missing}"
# Write old.crt atomically. Replace ca.crt last, because the role identifies the current authority
# by ca.crt.
cp --preserve=mode ca.crt old.crt.new
mv old.crt.new old.crt
if [[ -e next.key ]]; then
  mv next.key ca.key
fi
mv next.crt ca.crt
