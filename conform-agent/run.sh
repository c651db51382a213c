#!/usr/bin/env bash
# Plays the conformance suite against this project's endpoint in three ways and compares every verdict: the engine in virtual
# time, the engine behind a control connection, and the agent over libibverbs and libmrc, which do not know that they are
# ours. Needs root for network namespaces, a C compiler and libibverbs-dev.
#
#   conform-agent/run.sh                 all scripts
#   conform-agent/run.sh --short         a part that takes some seconds, for CI
#   conform-agent/run.sh --filter TEXT   as `mrc conform --filter`
#   conform-agent/run.sh --readings      only the targets of another reading
#
# FIXED=1 sets the device up once, as for a vendor without --configure: in real time, and more is refused.
# WAYS="control agent" plays fewer ways, and compares nothing.
# MRC_BIN names the folder of `mrc`, `libibverbs.so` and `lib_mrc.so`; the default builds them. RESULTS keeps the reports.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "SKIP conform-agent: needs root for network namespaces"; exit 0; }
filters=() suite=1 readings=(pdcid_order=1 ctl_ect=1 msn_start=1)
case ${1:-} in
    --short)
        for part in wimm/ length/ nack/ memory/ srv6/ timer/; do filters+=(--filter "$part"); done
        readings=(pdcid_order=1)
        ;;
    --filter) filters=("$@") readings=() ;;
    --readings) suite= ;;
    "") ;;
    *) sed -n '6,9s/^# *//p' "$0"; exit 2 ;;
esac
if [ -z "${MRC_BIN:-}" ]; then
    cargo build --release --locked --quiet -p mrc-transport -p mrc-ibverbs -p mrc-libmrc
    MRC_BIN=${CARGO_TARGET_DIR:-target}/release
fi
bin=$(realpath "$MRC_BIN") here=$(realpath conform-agent) work=$(mktemp -d) id=mrcca$$
out=${RESULTS:-$work/results}
mkdir -p "$out"
running=
clean() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    ip netns del "${id}a" 2>/dev/null || true
    ip netns del "${id}b" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

# The libraries under the names that programs load.
mkdir "$work/lib"
ln -s "$bin/libibverbs.so" "$work/lib/libibverbs.so.1"
ln -s "$bin/libibverbs.so" "$work/lib/libibverbs.so"
ln -s "$bin/lib_mrc.so" "$work/lib/lib_mrc.so"
cc -O1 -Wall -Wextra -Werror -I mrc-ibverbs/include -o "$work/agent" conform-agent/agent.c -L "$work/lib" -l_mrc -libverbs

for side in a b; do ip netns add "$id$side"; done
for link in p1 p2; do
    ip link add "$link" netns "${id}a" mtu 9000 type veth peer name "$link" netns "${id}b" mtu 9000
    for side in a b; do ip -n "$id$side" link set "$link" up; done
done
ip -n "${id}a" addr add 10.77.0.1/24 dev p1
ip -n "${id}b" addr add 10.77.0.2/24 dev p1
mac() { ip netns exec "${id}a" cat "/sys/class/net/$1/address"; }
MRC_CONFIG=$work/mrc.toml NEXT_HOPS=$(mac p1),$(mac p2)
export MRC_CONFIG NEXT_HOPS PLANES=p1,p2 MRC_LOG=error

# The target of the second or third way: control or agent, with a reading that the tester does not know, or none.
target() {
    if [ "$1" = control ]; then
        ip netns exec "${id}b" "$bin/mrc" conform --serve --iface p1,p2 --listen 0.0.0.0:4970 ${2:+--knob "$2"} 2>>"$out/$1.log" &
    else
        local how=(--configure "$here/configure-mrc.sh")
        if [ -n "${FIXED:-}" ]; then
            LD_LIBRARY_PATH=$work/lib "$work/agent" --list-knobs | sed -n 's/ device$//p' | tr ' ' = | xargs "$here/configure-mrc.sh" >/dev/null
            how=()
        fi
        EXTRA=${2:-} LD_LIBRARY_PATH=$work/lib ip netns exec "${id}b" "$work/agent" --netdev p1,p2 --gid-index 2 \
            --lacks vlan,ip_options,bare "${how[@]}" 2>>"$out/$1.log" &
    fi
    running=$!
}

play() { # WAY NAME READING filters...
    local way=$1 name=$2 reading=$3 code=0
    shift 3
    if [ "$way" = engine ]; then
        "$bin/mrc" conform --json ${reading:+--target-knob "$reading"} "$@" >"$out/$name-$way.json" || code=$?
    else
        target "$way" "$reading"
        timeout 1200 ip netns exec "${id}a" "$bin/mrc" conform --iface p1,p2 --peer 10.77.0.2 --json --retries "$retries" "$@" \
            >"$out/$name-$way.json" || code=$?
        kill "$running" && wait "$running" 2>/dev/null || true
        running=
    fi
    [ "$code" -le 1 ] || { echo "$name over $way: exit code $code"; tail -n 5 "$out/$way.log"; exit 1; }
}

retries=4 status=0
if [ -n "$suite" ]; then
    for way in ${WAYS:-engine control agent}; do play "$way" suite "" "${filters[@]}"; done
    [ -z "${WAYS:-}" ] || exit 0
    python3 conform-agent/compare.py "$out" suite || status=1
fi
# Targets of another reading, which the tester does not know of: the same scripts must fail in all three ways.
retries=0
for reading in "${readings[@]}"; do
    for way in engine control agent; do play "$way" "$reading" "$reading" --filter sack/gap --filter wimm/; done
    python3 conform-agent/compare.py "$out" "$reading" || status=1
done
# Whoever reaches the port may ask anything.
FIXED=1 target agent
for _ in $(seq 50); do ip netns exec "${id}b" ss -Hltn "sport = :4970" | grep -q . && break || sleep 0.1; done
ip netns exec "${id}a" conform-agent/strangers.py 10.77.0.2 && kill -0 "$running" || status=1
exit $status
