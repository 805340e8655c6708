# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what makes networks and tunnels. They keep what they are told; the namespaces they work on are real."""

from __future__ import annotations

_INTERFACE = r"""
mkdir -p "$HOME/told" && printf '%s\0' "$@" >"$HOME/told/@NAME@.$$"
echo "$$" >>"$HOME/helpers"
inside=(nsenter --target "$pid" --user --net --preserve-credentials)
"${inside[@]}" -- /bin/bash -c 'ip link add net0 type veth peer name other &&
  ip address add 169.254.254.100/24 dev net0 && ip link set net0 up && ip link set other up &&
  ip route add default via 169.254.254.2'
exec sleep 1000
"""
SLIRP4NETNS = "#!/bin/bash\npid=${@: -2:1}" + _INTERFACE.replace("@NAME@", "slirp4netns")
PASTA = "#!/bin/bash\npid=${!#}" + _INTERFACE.replace("@NAME@", "pasta")

WG_QUICK = r"""#!/bin/bash
# wg-quick up FILE: root of the namespace makes the interface that the file is named after.
[[ $1 == up && $(id -u) == 0 ]] || exit 2
name=$(basename "$2" .conf)
stat -c %a "$2" >"$HOME/mode"
number=$(find "$HOME" -name 'tunnel.*' | wc -l)
cp "$2" "$HOME/tunnel.$number.$name"
ip link add "$name" type veth peer name "x$name"
addresses=$(sed -n 's/^Address = //p' "$2")
for each in ${addresses//,/ }; do ip address add "$each" dev "$name"; done
eval "$(sed -n 's/^PostUp = //p' "$2")"
"""

WG = r"""#!/bin/bash
case $1 in
genkey) head -c 32 /dev/urandom | base64 ;;
pubkey) sha256sum | head -c 43; echo = ;;
esac
"""

BORE = r"""#!/bin/bash
read -r token
mkdir -p "$HOME/told" && printf '%s\0' "$@" "$token" >"$HOME/told/bore.$$"
echo "$$" >>"$HOME/helpers"
echo "URL: https://route.example" >&2
exec sleep 1000
"""


def install(node):
    """Put all of them on a node."""
    for name, text in {
        "slirp4netns": SLIRP4NETNS, "pasta": PASTA, "wg-quick": WG_QUICK, "wg": WG, "bore": BORE,
    }.items():  # fmt: skip
        node.add(name, text)


def told(node, name):
    """The words that each of one kind was started with."""
    return [file.read_text().split("\0")[:-1] for file in sorted(node.home.glob(f"told/{name}.*"))]


def tunnels(node):
    """The tunnels that were opened: name and configuration."""
    files = sorted(node.home.glob("tunnel.*"))
    return [(file.name.split(".")[2], file.read_text()) for file in files]


def helpers(node):
    """Processes that were started and have to be gone."""
    file = node.home / "helpers"
    return [int(line) for line in file.read_text().split()] if file.exists() else []
