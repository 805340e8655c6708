#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a virtual environment hold exactly a lock file and, if one is given, a wheel. Prints "changed" if it did anything.
# Usage: install-environment.sh VENV LOCK WHEELHOUSE [WHEEL]; an empty WHEELHOUSE means the package index.
set -euo pipefail

readonly venv=$1 lock=$2 wheelhouse=$3 wheel=${4:-}

# A step is done when its stamp holds the checksum of what it installed; a run that is cut off leaves no stamp.
is_done() {
    local -r stamp=$venv/.installed-$1 file=$2
    [[ -f $stamp ]] && sha256sum --status --check <(printf '%s  %s\n' "$(<"$stamp")" "$file")
}

note_done() {
    local -r stamp=$venv/.installed-$1 file=$2
    sha256sum "$file" | cut -d ' ' -f 1 >"$stamp"
    echo changed
}

source_options=(--offline --no-index --find-links "$wheelhouse")
pip_options=(--no-index --find-links "$wheelhouse")
if [[ -z $wheelhouse ]]; then
    source_options=()
    pip_options=()
fi
install=("$venv/bin/uv" --quiet pip install --python "$venv/bin/python" --compile-bytecode)

if ! is_done lock "$lock"; then
    # Another lock file is another environment: nothing of the old one stays.
    python3 -m venv --clear "$venv"
    # uv installs in seconds what takes pip a minute.
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${pip_options[@]}" uv
    "${install[@]}" "${source_options[@]}" --require-hashes --requirement "$lock"
    note_done lock "$lock"
fi
if [[ -n $wheel ]] && ! is_done wheel "$wheel"; then
    "${install[@]}" --offline --no-index --no-deps --reinstall "$wheel"
    note_done wheel "$wheel"
fi
# uv leaves a lock that everybody may write to.
rm -f "$venv/.lock"
