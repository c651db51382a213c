#!/usr/bin/env bash
# Programs nobody here wrote, over MRC: installs them from Debian, builds a fabric of kernel SRv6 switches, runs each
# program unmodified on two hosts of it and prints one line each. Needs root.
#
#   tests/interop/run.sh            everything, some minutes
#   tests/interop/run.sh --short    the same programs for a shorter time, for CI
#
# MRC_BIN names the directory of `mrc`, `libibverbs.so` and `lib_mrc.so`; the default builds them. NCCL_LIB names an NCCL
# library to try as well, MOONCAKE a Python with Mooncake's package.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=20 lat_iters=1000 sweep_iters=100 stress=60
if [ "${1:-}" = --short ]; then
    seconds=6 lat_iters=200 sweep_iters=5 stress=6
fi

if [ "$(id -u)" != 0 ]; then
    echo "SKIP interop: needs root for network namespaces"
    exit 0
fi

if ! command -v ib_write_bw >/dev/null || ! command -v ibv_devinfo >/dev/null || ! [ -e /usr/include/infiniband/verbs.h ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        perftest ibverbs-utils libibverbs-dev gcc libc6-dev python3 >/dev/null
fi
if [ -z "${MRC_BIN:-}" ]; then
    cargo build --release --locked --quiet -p mrc-transport -p mrc-ibverbs -p mrc-libmrc
    MRC_BIN=${CARGO_TARGET_DIR:-target}/release
fi
mrc=$(realpath "$MRC_BIN/mrc")

prefix=mrcio$$
logs=$(mktemp -d)
trap '"$mrc" lab --prefix "$prefix" down >/dev/null; "$mrc" lab --prefix "${prefix}b" down >/dev/null; rm -rf "$logs" "$logs".*' EXIT
"$mrc" lab --prefix "$prefix" up >/dev/null
server_address=10.109.0.2
failed=0

on() { # host command...: on a host of the fabric, for at most two minutes
    local host=$1
    shift
    timeout -k 5 120 "$mrc" verbs-run --prefix "$prefix" --lab "$host" -- "$@"
}

say() { # name verdict detail
    printf '%-58s %-4s %s\n' "$1" "$2" "$3"
    if [ "$2" != ok ]; then
        failed=1
        tail -n 15 "$logs"/* | sed 's/^/    /'
    fi
}

# Runs a perftest program on both hosts. The last line of the table is the detail.
perftest() { # name program arguments...
    local name=$1 server client table
    shift
    rm -f "$logs"/*
    on hB "$@" >"$logs/server" 2>&1 &
    server=$!
    wait_for_listener
    client=0
    on hA "$@" "$server_address" >"$logs/client" 2>&1 || client=$?
    wait "$server" || client=$?
    table=$(sed -n '/#bytes/,/^---/p' "$logs/client" | grep -v -e '---' -e '#bytes' | tail -n 1 | tr -s ' \t' ' ' || true)
    if [ "$client" = 0 ] && [ -n "$table" ] && ! grep -qiE 'completion with error|failed status|problems' "$logs"/*; then
        say "$name" ok "$table"
    else
        say "$name" FAIL "exit code $client"
    fi
}

wait_for_listener() { # port, perftest's by default; namespace, the server's by default
    for _ in $(seq 100); do
        if ip netns exec "${2:-$prefix-hB}" ss -Htln "sport = :${1:-18515}" | grep -q .; then return; fi
        sleep 0.1
    done
}

# The same, while something happens to the fabric.
perftest_while() { # name script arguments...
    local name=$1 script=$2 trouble
    shift 2
    (sleep 2 && "$script") >"$logs.trouble" 2>&1 &
    trouble=$!
    perftest "$name" "$@"
    if ! wait "$trouble"; then
        say "$name: $script" FAIL "$(tail -n 1 "$logs.trouble")"
    fi
    rm -f "$logs.trouble"
}

lab() { "$mrc" lab --prefix "$prefix" "$@"; }

cut_links() {
    lab cut p0-t0a-t1a && sleep 1 && lab cut p1-t0b-t1c && sleep 1 && lab heal p0-t0a-t1a && lab heal p1-t0b-t1c
}

cut_plane() {
    lab withdraw 1 && sleep 1.5 && lab restore 1
}

lose() {
    lab impair --all --loss 0.1% && sleep 2 && lab impair --all --clear
}

looks() { # name wanted program...: a program that only looks
    local name=$1 wanted=$2
    shift 2
    rm -f "$logs"/*
    if on hA "$@" >"$logs/out" 2>&1 && grep -q "$wanted" "$logs/out"; then
        say "$name" ok "$(grep -m 1 "$wanted" "$logs/out" | tr -s ' \t' ' ')"
    else
        say "$name" FAIL "no \`$wanted\`"
    fi
}

looks "ibv_devices" mrc0 ibv_devices
looks "ibv_devinfo -v" "PORT_ACTIVE" ibv_devinfo -v
looks "ibv_devinfo -v, GID 3" "::ffff:10.109.0.1" ibv_devinfo -v

# What perftest does not use, by a program of ours against Debian's header and library.
for client in verbs_api verbs_rules; do
    rm -f "$logs"/*
    cc -O1 -o "$logs/$client" "tests/interop/$client.c" -libverbs
    if on hA "$logs/$client" >"$logs/out" 2>"$logs/err"; then
        say "$client.c" ok "$(grep -c ' ok$' "$logs/out") checks"
    else
        say "$client.c" FAIL "$(grep -c ' FAIL$' "$logs/out") checks failed"
    fi
done

# A program under memcheck finds another address space: not all that the kernel says of it is there.
if ! command -v valgrind >/dev/null; then
    echo "SKIP verbs_api.c under valgrind: it is not installed"
else
    rm -f "$logs"/*
    cc -O1 -o "$logs/verbs_api" tests/interop/verbs_api.c -libverbs
    if on hA valgrind -q --error-exitcode=9 --fair-sched=yes "$logs/verbs_api" >"$logs/out" 2>"$logs/err"; then
        say "verbs_api.c under valgrind" ok "$(grep -c ' ok$' "$logs/out") checks"
    else
        say "verbs_api.c under valgrind" FAIL "$(grep -h -m 1 -e FAIL -e Invalid "$logs/out" "$logs/err" || tail -n 1 "$logs/err")"
    fi
fi

cc -O1 -o "$logs/verbs_stress" tests/interop/verbs_stress.c -libverbs -lpthread
if on hA env MRC_LOG=off "$logs/verbs_stress" $stress >"$logs/out" 2>"$logs/err"; then
    say "verbs_stress.c, 4 threads with 16 QPs each" ok "$(cat "$logs/out")"
else
    say "verbs_stress.c, 4 threads with 16 QPs each" FAIL "$(tail -n 1 "$logs/err")"
fi

# Both again over a debug build, whose assertions and overflow checks the release build lacks.
debug() { # program arguments...
    MRC_LOG=off timeout -k 5 120 "$mrc" verbs-run --library "$debug_library" --prefix "$prefix" --lab hA -- "$@" >"$logs/out" 2>"$logs/err"
}
if ! command -v cargo >/dev/null; then
    echo "SKIP verbs_rules.c and verbs_stress.c over a debug build: cargo is not installed"
else
    cargo build --locked --quiet -p mrc-ibverbs
    debug_library=$(realpath "${CARGO_TARGET_DIR:-target}/debug/libibverbs.so")
    cc -O1 -o "$logs/verbs_rules" tests/interop/verbs_rules.c -libverbs
    if debug "$logs/verbs_rules" && debug "$logs/verbs_stress" 6; then
        say "verbs_rules.c and verbs_stress.c over a debug build" ok "$(cat "$logs/out")"
    else
        say "verbs_rules.c and verbs_stress.c over a debug build" FAIL "$(grep -h -m 1 -e FAIL -e panicked "$logs/out" "$logs/err" || tail -n 1 "$logs/err")"
    fi
fi

# The same test, with memory closed before it is deregistered: a byte placed late must not go unnoticed.
result=0
on hA env MRC_LOG=off "$logs/verbs_stress" 10 1 late >"$logs/out" 2>"$logs/err" || result=$?
say "verbs_stress.c notices a late write" "$([ "$result" = 139 ] && echo ok || echo FAIL)" "exit code $result"

# And under memcheck, which finds what the closed pages do not: use of memory that was freed, and what is never freed.
memcheck=(valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --fair-sched=yes)
if [ "$stress" -lt 60 ]; then
    echo "SKIP verbs_stress.c under valgrind: in the long form only"
elif ! command -v valgrind >/dev/null; then
    echo "SKIP verbs_stress.c under valgrind: it is not installed"
elif on hA env MRC_LOG=off "${memcheck[@]}" "$logs/verbs_stress" $stress >"$logs/out" 2>"$logs/err"; then
    say "verbs_stress.c under valgrind" ok "$(cat "$logs/out")"
else
    say "verbs_stress.c under valgrind" FAIL "$(grep -m 1 -e Invalid -e 'definitely lost' -e depends "$logs/err" || tail -n 1 "$logs/err")"
fi

cc -O2 -o "$logs/verbs_cost" tests/interop/verbs_cost.c -libverbs
if on hA "$logs/verbs_cost" >"$logs/out" 2>"$logs/err"; then
    say "verbs_cost.c" ok "$(cat "$logs/out")"
else
    say "verbs_cost.c" FAIL "$(tail -n 1 "$logs/err")"
fi

# pyverbs is unpacked, not installed, since installing it may upgrade other packages. It is built for Debian's own Python.
pyverbs=$logs.pyverbs
unpack() { # packages...
    mkdir -p "$pyverbs"
    (cd "$pyverbs" && apt-get download -qq "$@" && for package in *.deb; do dpkg-deb -x "$package" .; done) >"$logs/out" 2>&1
}
export PYTHONPATH=$pyverbs/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
rm -f "$logs"/*
unpack python3-pyverbs libpython3.11 || { apt-get update -qq && unpack python3-pyverbs libpython3.11; } || true
# `verbs-run` puts the directory of our library before this one.
libpython=$pyverbs/usr/lib/$(uname -m)-linux-gnu
if ! LD_LIBRARY_PATH=$libpython /usr/bin/python3 -c 'import pyverbs.qp' 2>"$logs/err"; then
    echo "SKIP pyverbs_write.py: $(tail -n 1 "$logs/err")"
else
    rm -f "$logs"/*
    LD_LIBRARY_PATH=$libpython on hB /usr/bin/python3 tests/interop/pyverbs_write.py server >"$logs/server" 2>&1 &
    server=$!
    wait_for_listener 18600
    client=0
    LD_LIBRARY_PATH=$libpython on hA /usr/bin/python3 tests/interop/pyverbs_write.py client "$server_address" >"$logs/client" 2>&1 ||
        client=$?
    wait "$server" || client=$?
    say "pyverbs_write.py" "$([ "$client" = 0 ] && echo ok || echo FAIL)" "$(cat "$logs"/* | grep -c ' ok$') checks on both sides"
fi

# NCCL's own transport, without a GPU. The library has some hundred megabytes, so it is not fetched here.
if ! [ -e "${NCCL_LIB:-}" ]; then
    echo "SKIP nccl_net.py: NCCL_LIB names no libnccl.so.2 (pip download --no-deps nvidia-nccl-cu12, and unzip)"
else
    for option in NCCL_IB_HCA=mrc0 NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_ADAPTIVE_ROUTING=1; do
        rm -f "$logs"/*
        nccl() { on "$1" env NCCL_DEBUG=INFO NCCL_IB_HCA=mrc0 $option /usr/bin/python3 tests/interop/nccl_net.py "$NCCL_LIB" "${@:2}"; }
        nccl hB receive >"$logs/receive" 2>&1 &
        server=$!
        wait_for_listener 18601
        client=0
        nccl hA send "$server_address" >"$logs/send" 2>&1 || client=$?
        wait "$server" || client=$?
        say "nccl_net.py, $option" "$([ "$client" = 0 ] && echo ok || echo FAIL)" "$(grep -c '4 of 4 ok$' "$logs/receive") sizes received"
    done
fi

# Mooncake's Transfer Engine, which writes over TCP where it finds no device.
if [ -z "${MOONCAKE:-}" ]; then
    echo "SKIP mooncake_write.py: MOONCAKE names no Python with it (pip install mooncake-transfer-engine-non-cuda)"
else
    rm -f "$logs"/*
    mooncake() { on "$1" env MC_WORKERS_PER_CTX=1 "$MOONCAKE" tests/interop/mooncake_write.py "${@:2}"; }
    mooncake hB receive 10.109.0.2 >"$logs/receive" 2>&1 &
    server=$!
    wait_for_listener 18603
    client=0
    mooncake hA send 10.109.0.1 "$server_address" >"$logs/send" 2>&1 || client=$?
    wait "$server" || client=$?
    if [ "$client" = 0 ] && grep -q 'installTransport, type=rdma' "$logs/send" && grep -q 'installTransport, type=rdma' "$logs/receive"; then
        say "mooncake_write.py" ok "$(cat "$logs"/* | grep -c ' ok$') steps on both sides"
    else
        say "mooncake_write.py" FAIL "exit code $client, or TCP"
    fi
fi

# A client of lib_mrc.so with our headers; then again until an EV event comes, since all packets of one plane are lost.
mkdir "$logs.bin"
cc -O1 -Wall -I mrc-ibverbs/include -o "$logs.bin/libmrc" tests/interop/libmrc.c -L "$MRC_BIN" -l_mrc -libverbs
libmrc() { # name arguments...
    local name=$1
    shift
    if on hA "$logs.bin/libmrc" "$@" >"$logs/out" 2>"$logs/err"; then
        say "$name" ok "$(grep -c ' ok$' "$logs/out") checks"
    else
        say "$name" FAIL "$(grep -c ' FAIL$' "$logs/out") checks failed"
    fi
}
rm -f "$logs"/*
libmrc "libmrc.c: profiles, hints, write with immediate, EV probes"
rm -f "$logs"/*
: >"$logs/out"
(until grep -q ready "$logs/out"; do sleep 0.2; done; lab impair --plane 1 --loss 100%) >/dev/null &
trouble=$!
libmrc "libmrc.c: EV events" events
kill "$trouble" 2>/dev/null || true
lab impair --plane 1 --clear >/dev/null

# Two clients on two hosts, which hear of each other over TCP.
rm -f "$logs"/*
cc -O1 -Wall -I mrc-ibverbs/include -o "$logs.bin/libmrc_peer" tests/interop/libmrc_peer.c -L "$MRC_BIN" -l_mrc -libverbs
on hB "$logs.bin/libmrc_peer" >"$logs/server" 2>&1 &
server=$!
client=0
on hA "$logs.bin/libmrc_peer" "$server_address" >"$logs/client" 2>&1 || client=$?
wait "$server" || client=$?
if [ "$client" = 0 ]; then
    say "libmrc_peer.c: profiles, port status, ports between hosts" ok "$(cat "$logs"/* | grep -c ' ok$') checks"
else
    say "libmrc_peer.c: profiles, port status, ports between hosts" FAIL "$(cat "$logs"/* | grep -c ' FAIL$') checks failed"
fi
rm -rf "$logs.bin"

bw="ib_write_bw -d mrc0 --report_gbits"
lat="ib_write_lat -d mrc0"
# The lists of words are meant to be split.
# shellcheck disable=SC2086
{
    perftest "ib_write_bw -x 3 -n 2000" $bw -x 3 -n 2000
    perftest "ib_write_bw, GID chosen by perftest" $bw -n 1000
    perftest "ib_write_bw -q 16" $bw -x 3 -q 16 -n 200
    perftest "ib_write_bw -b" $bw -x 3 -b -n 500
    perftest "ib_write_bw -b -q 16" $bw -x 3 -b -q 16 -n 100
    perftest "ib_write_bw -a" $bw -x 3 -a -n $sweep_iters
    perftest "ib_write_bw -Q 16 -l 16" $bw -x 3 -Q 16 -l 16 -n 2000
    perftest "ib_write_bw -m 1024" $bw -x 3 -m 1024 -n 500
    perftest "ib_write_bw -s 64 -I 64 (inline)" $bw -x 3 -s 64 -I 64 -n 2000
    perftest "ib_write_bw -s 1" $bw -x 3 -s 1 -n 1000
    perftest "ib_write_lat -s 8" $lat -x 3 -s 8 -n $lat_iters
    perftest "ib_write_lat, GID chosen by perftest" $lat -n $lat_iters
    perftest "ib_write_lat -a" $lat -x 3 -a -n $sweep_iters
    perftest "ib_write_bw -D" $bw -x 3 -D $seconds
    perftest_while "ib_write_bw -D, T0-T1 links cut and healed" cut_links $bw -x 3 -D $seconds
    perftest_while "ib_write_bw -D, one plane cut and healed" cut_plane $bw -x 3 -D $seconds
    perftest_while "ib_write_bw -D, 0.1 % loss" lose $bw -x 3 -D $seconds
}

# Two processes of one host at the same time: one device each, with interfaces and addresses of its own. The second one's come
# from a host that gives them away.
two=${prefix}b
"$mrc" lab --prefix "$two" up --hosts 4 >/dev/null
rm -f "$logs"/*
for plane in 0 1; do
    ip -n "$two-hC" link set "plane$plane" down
    ip -n "$two-hC" link set "plane$plane" netns "$two-hA" name "second$plane"
    ip -n "$two-hA" link set "second$plane" up
done
sed 's/"plane\([01]\)"/"second\1"/' "/run/mrc/$two/hC.toml" >"$logs.second.toml"
one_of_two() { # host configuration arguments...
    ip netns exec "$two-$1" timeout -k 5 120 "$mrc" verbs-run --config "$2" -- ib_write_bw -d mrc0 -x 3 -n 2000 --report_gbits "${@:3}"
}
one_of_two hB "/run/mrc/$two/hB.toml" >"$logs/server" 2>&1 &
servers=$!
one_of_two hD "/run/mrc/$two/hD.toml" >"$logs/server2" 2>&1 &
servers="$servers $!"
wait_for_listener 18515 "$two-hB"
wait_for_listener 18515 "$two-hD"
one_of_two hA "/run/mrc/$two/hA.toml" 10.109.0.2 >"$logs/first" 2>&1 &
servers="$servers $!"
result=0
one_of_two hA "$logs.second.toml" 10.109.0.4 >"$logs/second" 2>&1 || result=$?
for process in $servers; do wait "$process" || result=$?; done
say "two processes of one host, a device each" "$([ "$result" = 0 ] && echo ok || echo FAIL)" \
    "$(grep -h -A 1 '#bytes' "$logs"/first "$logs"/second | grep -v -e '#bytes' -e '--' | awk '{ print $4 }' | paste -sd ' ') Gb/s"

# A client that sets the planes of its host down, on the fabric that goes now.
rm -f "$logs"/*
cc -O1 -o "$logs/verbs_ports" tests/interop/verbs_ports.c -libverbs
if timeout -k 5 60 "$mrc" verbs-run --prefix "$two" --lab hB -- "$logs/verbs_ports" >"$logs/out" 2>"$logs/err"; then
    say "verbs_ports.c" ok "$(grep -c ' ok$' "$logs/out") checks"
else
    say "verbs_ports.c" FAIL "$(grep -c ' FAIL$' "$logs/out") checks failed"
fi
"$mrc" lab --prefix "$two" down >/dev/null

# Two on the same interfaces: the second is told who has them, and the first notices nothing.
rm -f "$logs"/*
cc -O1 -o "$logs.stress" tests/interop/verbs_stress.c -libverbs -lpthread
on hB env MRC_LOG=off "$logs.stress" 6 >"$logs/first" 2>&1 &
holder=$!
for _ in $(seq 100); do
    if ip -n "$prefix-hB" link show plane0 | grep -q xdp; then break; fi
    sleep 0.1
done
if ! on hB "$logs.stress" 1 >"$logs/second" 2>&1 && grep -q 'held by' "$logs/second" && wait "$holder"; then
    say "two processes on the same interfaces" ok "$(grep -o 'held by .*' "$logs/second" | head -n 1)"
else
    say "two processes on the same interfaces" FAIL "no word of it"
fi

# A peer that dies is an error with its reason, not a hang.
rm -f "$logs"/*
on hB sh -c 'echo $$ >"$0"; exec "$@"' "$logs/pid" $bw -x 3 -D 60 >"$logs/server" 2>&1 &
server=$!
wait_for_listener
(sleep 3 && kill -9 "$(cat "$logs/pid")") &
on hA $bw -x 3 -D 60 "$server_address" >"$logs/client" 2>&1 || true
wait "$server" 2>/dev/null || true
if grep -q 'Failed status 12' "$logs/client" && grep -q 'retry counter exceeded' "$logs/client"; then
    say "ib_write_bw, the peer killed" ok "$(grep -o 'retry counter exceeded.*' "$logs/client" | head -n 1)"
else
    say "ib_write_bw, the peer killed" FAIL "no word of it"
fi

# What MRC does not have must say so.
rm -f "$logs"/*
on hB ib_send_bw -d mrc0 -x 3 -n 10 >"$logs/server" 2>&1 &
server=$!
wait_for_listener
on hA ib_send_bw -d mrc0 -x 3 -n 10 "$server_address" >"$logs/client" 2>&1 || true
kill "$server" 2>/dev/null || true
wait "$server" 2>/dev/null || true
if grep -q 'RDMA WRITE' "$logs/client"; then
    say "ib_send_bw is refused" ok "$(grep -m 1 'RDMA WRITE' "$logs/client")"
else
    say "ib_send_bw is refused" FAIL "no word of it"
fi

# The conformance suite over the libraries, which the agent does not know to be ours.
rm -f "$logs"/*
agent=(conform-agent/run.sh)
[ "${1:-}" != --short ] || agent+=(--short)
if MRC_BIN=$MRC_BIN "${agent[@]}" >"$logs/agent" 2>&1; then
    say "conformance by three ways, one over libibverbs and libmrc" ok "$(grep -m 1 '^suite' "$logs/agent")"
else
    say "conformance by three ways, one over libibverbs and libmrc" FAIL "verdicts differ"
fi

exit $failed
