# --- Virtual networks: each has a gateway on this node; other nodes connect to it by UDP ---
gateways=()
# Arguments: number, address of the gateway, the network, address and host address of each end.
open_network() {
  local each end=0 gateway_key key port public
  for each in ip pasta python3 wg wg-quick; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$each" >/dev/null; then
      echo "gridstead: this node has no $each" >&2
      return 127
    fi
  done
  port=$(
    python3 -c '
import socket
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("", 0))
print(udp.getsockname()[1])'
  )
  gateway_key=$(wg genkey) public=$(wg pubkey <<<"$gateway_key")
  (
    umask 077
    printf '[Interface]\nPrivateKey = %s\nAddress = %s\nListenPort = %s\n' \
      "$gateway_key" "$2" "$port"
    printf 'PostUp = echo 1 >/proc/sys/net/%s\n' ipv4/ip_forward ipv6/conf/all/forwarding
    for ((each = 4; each < $#; each += 2)); do
      end=$((end + 1)) key=$(wg genkey)
      printf '[Peer]\nPublicKey = %s\nAllowedIPs = %s\n' "$(wg pubkey <<<"$key")" "${@:each+1:1}"
      {
        printf '[Interface]\nPrivateKey = %s\nAddress = %s\n' "$key" "${@:each:1}"
        # The end inserts the address of this node before the port.
        printf '[Peer]\nPublicKey = %s\nEndpoint = :%s\nAllowedIPs = %s\n' "$public" "$port" "$3"
        printf 'PersistentKeepalive = %%{keepalive}\n--\n'
      } >"$private/vnet-$1-$end"
    done
    echo --
  ) >"$private/vnet-$1"
  /bin/bash -c "$in_network" pasta '' '' '' "$port" --wireguard=wg0 -- \
    /bin/sh -c 'trap "kill \$!; exit" TERM; sleep infinity & : >"$0"; wait' \
    "$private/vnet-$1-up" <"$private/vnet-$1" &
  gateways+=("$!")
  for ((each = 0; each < 300; each++)); do
    if [[ -e $private/vnet-$1-up ]]; then return 0; fi
    kill -0 "${gateways[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "gridstead: could not open virtual network $1" >&2
  return 71
}
%%{calls}
