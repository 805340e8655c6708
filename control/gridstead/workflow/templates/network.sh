
# --- Network namespaces ---
# Runs words in a network namespace on the node of a task, with the customer's variables, so its
# names have a prefix. The root user of an outer user namespace configures the network. The words
# of user "root" run as this user. Other words run in an inner user namespace and cannot change the
# network. The settings of tunnels are read from standard input, each up to a line --.
# Arguments: slirp4netns or pasta, user, group, name servers, UDP port for incoming packets,
# options, --, words.
in_network() {
  local gridstead_place gridstead_helper gridstead_code=0 gridstead_each
  for gridstead_each in "$1" ip mount unshare; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "$gridstead_each" >/dev/null; then
      echo "gridstead: this node has no $gridstead_each" >&2
      return 127
    fi
  done
  gridstead_place=$(mktemp -d "${TMPDIR:-/tmp}/gridstead.XXXXXX") || return
  catch_signals
  mkfifo -- "$gridstead_place/inside"
  (
    read -r gridstead_each <"$gridstead_place/inside"
    case $1 in
    slirp4netns)
      exec slirp4netns --configure --mtu=65520 --disable-host-loopback --cidr=169.254.254.0/24 \
        "$gridstead_each" net0
      ;;
    *)
      exec pasta --foreground --config-net --ns-ifname net0 --address 169.254.254.100 \
        --netmask 255.255.255.0 --gateway 169.254.254.2 --dns-forward 169.254.254.3 \
        --tcp-ports none --udp-ports "$5" --tcp-ns none --udp-ns none "$gridstead_each"
      ;;
    esac
  ) </dev/null >"$gridstead_place/messages" 2>&1 &
  gridstead_helper=$!
  run_forwarding_signals unshare --user --map-user=0 --map-group="${3:-$(id -g)}" --net --mount -- \
    /bin/bash -c \
    "$(declare -f catch_signals forward_signal run_forwarding_signals in_namespace)
    in_namespace \"\$@\"" bash "$gridstead_place" "$gridstead_helper" "$1" "${2:-$(id -u)}" \
    "${3:-$(id -g)}" "$4" "${@:6}" || gridstead_code=$?
  kill -KILL "$gridstead_helper" 2>/dev/null
  wait "$gridstead_helper" 2>/dev/null
  rm -rf -- "$gridstead_place"
  return "$gridstead_code"
}

# Arguments: place, helper, slirp4netns or pasta, user, group, name servers, options, --, words.
in_namespace() {
  local gridstead_place=$1 gridstead_helper=$2 gridstead_user=$4 gridstead_group=$5
  local gridstead_servers=$6 gridstead_each gridstead_line gridstead_tunnels=() gridstead_ports=()
  local gridstead_inner=() gridstead_code=0
  local gridstead_gateway=${SLURM_LAUNCH_NODE_IPADDR-} # the node of the job's script, set by srun
  if [[ $gridstead_gateway == *:* ]]; then gridstead_gateway="[$gridstead_gateway]"; fi
  local -r gridstead_path=$PATH
  PATH=$PATH:/usr/sbin:/sbin
  catch_signals
  echo "$$" >"$gridstead_place/inside"
  for ((gridstead_each = 0; gridstead_each < 200; gridstead_each++)); do
    if grep -q $'^net0\t00000000' /proc/self/net/route ||
      grep -q '^0\{32\} 00 .* net0$' /proc/self/net/ipv6_route; then
      break
    elif [[ $gridstead_each == 199 || ! -d /proc/$gridstead_helper ]]; then
      echo "gridstead: $3 could not create a network:" >&2
      cat -- "$gridstead_place/messages" >&2
      return 71
    fi
    sleep 0.1
  done
  ip link set lo up
  for gridstead_each in ${gridstead_servers:-169.254.254.3}; do
    echo "nameserver $gridstead_each"
  done >"$gridstead_place/resolv.conf"
  mount --bind -- "$gridstead_place/resolv.conf" /etc/resolv.conf || return
  mkdir -- "$gridstead_place/keys"
  mount -t tmpfs -o mode=0700,size=1m tmpfs "$gridstead_place/keys" || return
  mkdir -p -- "$gridstead_place/keys/run/wireguard" # wireguard-go writes there, in its own /run
  gridstead_each=$(readlink -f /etc/resolv.conf)
  if [[ $gridstead_each == /run/* ]]; then
    mkdir -p -- "$gridstead_place/keys${gridstead_each%/*}"
    cat -- "$gridstead_each" >"$gridstead_place/keys$gridstead_each"
  fi
  shift 6
  while [[ $1 != -- ]]; do
    case $1 in
    --wireguard=*)
      gridstead_each=$gridstead_place/keys/${1#*=}.conf
      (umask 077 && while read -r gridstead_line && [[ $gridstead_line != -- ]]; do
        echo "${gridstead_line/#Endpoint = :/Endpoint = $gridstead_gateway:}"
      done >"$gridstead_each")
      unshare --mount -- /bin/sh -c 'mount --rbind -- "$0" /run && exec wg-quick up "$1"' \
        "$gridstead_place/keys/run" "$gridstead_each" >"$gridstead_place/messages" 2>&1 ||
        gridstead_code=$?
      rm -f -- "$gridstead_each"
      if ((gridstead_code)); then
        echo "gridstead: could not open the tunnel ${1#*=}:" >&2
        cat -- "$gridstead_place/messages" >&2
        return "$gridstead_code"
      fi
      gridstead_tunnels+=("${1#*=}")
      ;;
    --bore=*)
      gridstead_each=${1#*=} gridstead_line=
      if [[ $2 == --token ]]; then
        read -r gridstead_line
        read -r
        shift
      fi
      %%{bore} "${gridstead_each%,*}" "${gridstead_each##*,}" <<<"$gridstead_line" &
      gridstead_ports+=("$!")
      ;;
    esac
    shift
  done
  shift
  PATH=$gridstead_path
  if [[ $gridstead_user == root ]]; then
    PATH=$PATH:/usr/sbin:/sbin
  else
    gridstead_inner=(--user --map-user="$gridstead_user" --map-group="$gridstead_group")
  fi
  run_forwarding_signals unshare "${gridstead_inner[@]}" --mount -- "$@" || gridstead_code=$?
  PATH=$PATH:/usr/sbin:/sbin
  for gridstead_each in "${gridstead_ports[@]}"; do
    kill -KILL "$gridstead_each" 2>/dev/null
    wait "$gridstead_each" 2>/dev/null
  done
  for gridstead_each in "${gridstead_tunnels[@]}"; do
    ip link delete "$gridstead_each" 2>/dev/null
  done
  return "$gridstead_code"
}
in_network="$(declare -f catch_signals forward_signal run_forwarding_signals)
$(declare -f in_network in_namespace)
in_network \"\$0\" \"\$@\""
