#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the collection and installs it, with its wheel and its lock file, into a new environment,
# as an operator without a checkout does. With a COMMAND, runs the command in this environment.
# Usage: installed.sh FOLDER [COMMAND...]
set -euo pipefail

readonly folder=$1
shift
checkout=$(realpath "$(dirname "$0")/../..")
readonly checkout
readonly collections=$folder/collections
readonly installed=$collections/ansible_collections/gridstead/site

# Runs a command in the folder, without the variables and programs of the checkout's environment.
inside() {
    cd "$folder"
    env -u ANSIBLE_CONFIG -u PYTHONPATH -u VIRTUAL_ENV ANSIBLE_COLLECTIONS_PATH="$collections" \
        ANSIBLE_PIPELINING=1 PATH="$folder/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

if (($#)); then
    inside "$@"
    exit
fi

rm -rf "$folder"
mkdir -p "$folder/inventory/group_vars/all"
"$checkout/tools/collection"
uv venv --quiet --python "$checkout/.venv/bin/python" "$folder/venv"
install() { uv pip install --quiet --python "$folder/venv/bin/python" "$@"; }
install "$(grep --only-matching '^ansible==[0-9.]*' "$checkout/requirements/dev.txt")"
inside ansible-galaxy collection install --offline --collections-path "$collections" \
    "$checkout"/dist/gridstead-site-*.tar.gz
install --require-hashes --requirement "$installed/requirements/control.txt"
install --no-deps "$installed"/dist/gridstead-*.whl

# The wiring and the site's variables come from the collection, the host and its limits from the lab.
readonly variables=$folder/inventory/group_vars/all
ln -s "$installed/inventory/group_vars/all" "$variables/00-wiring"
ln -s "$installed"/inventory/single/group_vars/all/*.yml "$variables/10-single.yml"
cp "$checkout/inventory/lab/group_vars/all/machine.yml" "$variables/20-machine.yml"
cp "$checkout/molecule/single/inventory/group_vars/all/30-lab.yml" "$variables"
ln -s "$checkout/inventory/lab/hosts.py" "$folder/inventory/hosts.py"
cat >"$variables/40-programs.yml" <<END
traefik_binary: $checkout/.venv/traefik/bin/traefik
devnet_anvil: $checkout/contracts/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil
END
cat >"$folder/role.yml" <<END
- name: Run single roles
  hosts: all
  gather_subset: [min]
  roles: [gridstead.site.footprint, gridstead.site.munge]
END
