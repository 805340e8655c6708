#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the next authority the current one. Keeps the certificate of the current one as old.crt. If
# the script is interrupted, run it again.
#
#   change-authority.sh FOLDER

set -euo pipefail

cd "${1:?name the folder}"
# old.crt appears with its whole content. ca.crt changes last, because the role compares it to find
# the current authority.
cp --preserve=mode ca.crt old.crt.new
mv old.crt.new old.crt
if [[ -e next.key ]]; then
  mv next.key ca.key
fi
mv next.crt ca.crt
