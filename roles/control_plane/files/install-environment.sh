#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment hold exactly a lock file and a wheel. Prints "changed" if it did anything.
# Usage: install-environment.sh VENV LOCK WHEEL [WHEELHOUSE]
set -euo pipefail

readonly venv=$1 lock=$2 wheel=$3 wheelhouse=${4:-}
readonly stamp=$venv/.installed
wanted=$(sha256sum "$lock" "$wheel")
readonly wanted

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    exit 0
fi

source_options=()
if [[ -n $wheelhouse ]]; then
    source_options=(--no-index --find-links "$wheelhouse")
fi

rm -f "$stamp"
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
# uv installs in seconds what takes pip a minute.
[[ -x $venv/bin/uv ]] || "$venv/bin/pip" install --quiet --disable-pip-version-check "${source_options[@]}" uv
readonly uv=("$venv/bin/uv" --quiet --no-config --offline)
install=("${uv[@]}" pip install --python "$venv/bin/python")
if [[ -z $wheelhouse ]]; then
    install=("$venv/bin/uv" --quiet pip install --python "$venv/bin/python")
fi
"${install[@]}" "${source_options[@]}" --require-hashes --compile-bytecode --requirement "$lock"
"${install[@]}" --no-index --no-deps --reinstall --compile-bytecode "$wheel"
printf '%s' "$wanted" >"$stamp"
echo changed
