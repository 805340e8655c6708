
# --- Networks of their own ---
# Runs words in a network of their own, on the node of a task, among the customer's variables: ours have long names.
# Somebody who is root only there sets it up; who runs the words can change nothing of it. What tunnels must not have
# told comes by the input, for each up to a line --.
in_network() { # slirp4netns or pasta, user, group, name servers, port of the node that comes in, options, --, words
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
      exec slirp4netns --configure --mtu=65520 --disable-host-loopback --cidr=169.254.254.0/24 "$gridstead_each" net0
      ;;
    *)
      exec pasta --foreground --config-net --ns-ifname net0 --address 169.254.254.100 --netmask 255.255.255.0 \
        --gateway 169.254.254.2 --dns-forward 169.254.254.3 --tcp-ports none --udp-ports "$5" --tcp-ns none \
        --udp-ns none "$gridstead_each"
      ;;
    esac
  ) </dev/null >"$gridstead_place/said" 2>&1 &
  gridstead_helper=$!
  run_passing_on unshare --user --map-root-user --net --mount -- /bin/bash -c \
    "$(declare -f catch_signals pass_on run_passing_on in_namespace); in_namespace \"\$@\"" bash \
    "$gridstead_place" "$gridstead_helper" "$1" "${2:-$(id -u)}" "${3:-$(id -g)}" "$4" "${@:6}" || gridstead_code=$?
  kill -KILL "$gridstead_helper" 2>/dev/null
  wait "$gridstead_helper" 2>/dev/null
  rm -rf -- "$gridstead_place"
  return "$gridstead_code"
}

in_namespace() { # place, helper, slirp4netns or pasta, user, group, name servers, options, --, words
  local gridstead_place=$1 gridstead_helper=$2 gridstead_servers=$6 gridstead_user=$4 gridstead_group=$5
  local gridstead_each gridstead_line gridstead_tunnels=0 gridstead_ports=() gridstead_code=0
  local gridstead_first=${SLURM_LAUNCH_NODE_IPADDR-} # where the job's script runs, as srun says
  if [[ $gridstead_first == *:* ]]; then gridstead_first="[$gridstead_first]"; fi
  local -r gridstead_path=$PATH
  PATH=$PATH:/usr/sbin:/sbin
  catch_signals
  echo "$$" >"$gridstead_place/inside"
  for ((gridstead_each = 0; gridstead_each < 200; gridstead_each++)); do
    if grep -q $'^net0\t00000000' /proc/self/net/route || grep -q '^0\{32\} 00 .* net0$' /proc/self/net/ipv6_route; then
      break
    elif [[ $gridstead_each == 199 || ! -d /proc/$gridstead_helper ]]; then
      echo "gridstead: $3 could not make a network:" >&2
      cat -- "$gridstead_place/said" >&2
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
  mkdir -p -- "$gridstead_place/keys/run/wireguard" # where wireguard-go wants to write, in a /run of its own
  gridstead_each=$(readlink -f /etc/resolv.conf)
  if [[ $gridstead_each == /run/* ]]; then
    mkdir -p -- "$gridstead_place/keys${gridstead_each%/*}"
    cat -- "$gridstead_each" >"$gridstead_place/keys$gridstead_each"
  fi
  shift 6
  while [[ $1 != -- ]]; do
    case $1 in
    --wireguard)
      gridstead_each=$gridstead_place/keys/wg$gridstead_tunnels.conf
      (umask 077 && while read -r gridstead_line && [[ $gridstead_line != -- ]]; do
        echo "${gridstead_line/#Endpoint = :/Endpoint = $gridstead_first:}"
      done >"$gridstead_each")
      unshare --mount -- /bin/sh -c 'mount --rbind -- "$0" /run && exec wg-quick up "$1"' "$gridstead_place/keys/run" \
        "$gridstead_each" >"$gridstead_place/said" 2>&1 || gridstead_code=$?
      rm -f -- "$gridstead_each"
      if ((gridstead_code)); then
        echo "gridstead: could not open the tunnel wg$gridstead_tunnels:" >&2
        cat -- "$gridstead_place/said" >&2
        return "$gridstead_code"
      fi
      gridstead_tunnels=$((gridstead_tunnels + 1))
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
  run_passing_on unshare --user --map-user="$gridstead_user" --map-group="$gridstead_group" --mount -- "$@" ||
    gridstead_code=$?
  PATH=$PATH:/usr/sbin:/sbin
  for gridstead_each in "${gridstead_ports[@]}"; do
    kill -KILL "$gridstead_each" 2>/dev/null
    wait "$gridstead_each" 2>/dev/null
  done
  while ((gridstead_tunnels--)); do ip link delete "wg$gridstead_tunnels" 2>/dev/null; done
  return "$gridstead_code"
}
in_network="$(declare -f catch_signals pass_on run_passing_on in_network in_namespace); in_network \"\$0\" \"\$@\""
