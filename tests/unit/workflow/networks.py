# SPDX-License-Identifier: Apache-2.0
"""Steps with networks, and simulated programs that create networks and tunnels.

The programs record their arguments. The network namespaces are real.
"""

from __future__ import annotations

KEY, OTHER_KEY = "A" * 43 + "=", "B" * 42 + "E="
PEER = {
    "publicKey": OTHER_KEY, "preSharedKey": KEY, "allowedIPs": ["10.8.0.0/24"],
    "endpoint": "vpn.example:51820", "persistentKeepalive": 25,
}  # fmt: skip
TUNNEL = {"privateKey": KEY, "address": ["10.8.0.2/24", "fd00::2/64"], "peers": [PEER]}
NETWORKS = [
    {"name": "net 1", "gatewayAddress": "10.9.0.1/24"},
    {"name": "b", "gatewayAddress": "10.10.0.1/16"},
]

# The common part of slirp4netns and pasta. The program records its arguments and its own process
# id. Then it creates the interface net0 in the network namespace of process $pid, and runs until it
# is killed.
_INTERFACE = r"""
mkdir -p "$HOME/calls" && printf '%s\0' "$@" >"$HOME/calls/@NAME@.$$"
echo "$$" >>"$HOME/helpers"
inside=(nsenter --target "$pid" --user --net --preserve-credentials)
"${inside[@]}" -- /bin/bash -c 'ip link add net0 type veth peer name other &&
  ip address add 169.254.254.100/24 dev net0 && ip link set net0 up && ip link set other up &&
  ip route add default via 169.254.254.2'
exec sleep 1000
"""
# $pid is the last argument but one of slirp4netns, and the last argument of pasta.
SLIRP4NETNS = "#!/bin/bash\npid=${@: -2:1}" + _INTERFACE.replace("@NAME@", "slirp4netns")
PASTA = "#!/bin/bash\npid=${!#}" + _INTERFACE.replace("@NAME@", "pasta")

WG_QUICK = r"""#!/bin/bash
# wg-quick up FILE: creates an interface with the name of the file. Fails without root in the
# namespace.
[[ $1 == up && $(id -u) == 0 ]] || exit 2
name=$(basename "$2" .conf)
stat -c %a "$2" >"$HOME/mode"
shopt -s nullglob
tunnels=("$HOME"/tunnel.*)
shopt -u nullglob
cp "$2" "$HOME/tunnel.${#tunnels[@]}.$name"
ip link add "$name" type veth peer name "x$name"
addresses=$(sed -n 's/^Address = //p' "$2")
for each in ${addresses//,/ }; do ip address add "$each" dev "$name"; done
eval "$(sed -n 's/^PostUp = //p' "$2")"
"""

# The subcommands genkey and pubkey of wg. The printed keys have the format of keys, but are random
# bytes and hashes.
WG = r"""#!/bin/bash
case $1 in
genkey) head -c 32 /dev/urandom | base64 ;;
pubkey) sha256sum | head -c 43; echo = ;;
esac
"""

# The bore client. Reads the token from its input, and prints the public URL that a bore server
# would assign.
BORE = r"""#!/bin/bash
read -r token
mkdir -p "$HOME/calls" && printf '%s\0' "$@" "$token" >"$HOME/calls/bore.$$"
echo "$$" >>"$HOME/helpers"
echo "URL: https://route.example" >&2
exec sleep 1000
"""


def step(command, *interfaces, network="slirp4netns", **fields):
    """Return a step in a network namespace with these interfaces."""
    return {
        "run": {
            "command": command,
            "network": network,
            "customNetworkInterfaces": list(interfaces),
            **fields,
        }
    }


def vnet_interface(name, address):
    """Return an interface in a virtual network."""
    return {"vnet": {"name": name, "address": address}}


def install(node):
    """Install all simulated programs on a node."""
    node.add_program("slirp4netns", SLIRP4NETNS)
    node.add_program("pasta", PASTA)
    node.add_program("wg-quick", WG_QUICK)
    node.add_program("wg", WG)
    node.add_program("bore", BORE)


def calls(node, name):
    """Return the arguments of each call of a simulated program."""
    files = sorted(node.home.glob(f"calls/{name}.*"))
    return [file.read_text().split("\0")[:-1] for file in files]


def tunnels(node):
    """Return the name and the configuration of each opened tunnel."""
    files = sorted(node.home.glob("tunnel.*"))
    contents = []
    for file in files:
        _, _, name = file.name.split(".")  # tunnel.NUMBER.NAME
        contents.append((name, file.read_text()))
    return contents


def helper_pids(node):
    """Return the process ids of the simulated programs, which must end with the job."""
    file = node.home / "helpers"
    if not file.exists():
        return []
    return [int(line) for line in file.read_text().split()]
