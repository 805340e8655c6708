#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts the next authority in the place of this one, whose certificate stays as old.crt. Cut short,
# it is run again.
#
#   change-authority.sh FOLDER

set -euo pipefail

cd "${1:?say the folder}"
# Whole or not there, and never the new one's: that comes last, as the role goes by it.
cp --preserve=mode ca.crt old.crt.new
mv old.crt.new old.crt
if [[ -e next.key ]]; then
  mv next.key ca.key
fi
mv next.crt ca.crt
