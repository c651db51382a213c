#!/bin/sh
# Simulator speed where many connections are busy, beside a permutation over the same fabric, by turns: an all-to-all of 64 hosts (asked:
# half of its permutation), that of `collectives` (the same), and 10 000 short messages with a connection each (the same).
# M hops for each second of processor time, one thread; median, least and most of ROUNDS.
# Usage: benches/simulator.sh MRC   (MRC: a release build; ROUNDS=9)
set -eu
[ $# = 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
mrc=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

parity='preset = "parity"
limit_us = 10000000
[topology]
t0 = 8
hosts_per_t0 = 8
t1 = 8'
collectives=$(sed '/^\[\[workload\]\]/,$d' scenarios/experiments/collectives.toml)
scenario() {
    printf '%s\n[[workload]]\n%s\n' "$2" "$3" >"$work/$1.toml"
}
scenario all-to-all "$parity" 'kind = "all-to-all"
bytes = 4194304'
scenario permutation "$parity" 'kind = "permutation"
bytes = 8000000'
scenario short "$parity
[transport]
connections = \"per-message\"" 'kind = "poisson"
sizes = [[1000, 0.0], [20000, 1.0]]
load = 0.8
flows = 10000'
scenario collectives "$collectives" 'kind = "all-to-all"
bytes = 16777216
iterations = 2
skew_us = 10'
scenario collectives-permutation "$collectives" 'kind = "permutation"
bytes = 20000000'

for _ in $(seq "${ROUNDS:-9}"); do
    for name in all-to-all permutation short collectives collectives-permutation; do
        speed=$("$mrc" sim run "$work/$name.toml" --threads 1 2>"$work/error" | sed -n 's/^simulator *\([0-9.]*\) M hops.*/\1/p')
        [ -n "$speed" ] || { cat "$work/error" >&2; exit 1; }
        echo "$speed" >>"$work/$name"
    done
done

# Median, least and most of the numbers of standard input.
summary() {
    sort -n | awk '{ all[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", all[int((NR + 1) / 2)], all[1], all[NR] }'
}
printf '%-26s %-24s %-24s %s\n' run 'M hops/s' 'over its permutation' asked
row() {
    ratio=$(paste "$work/$1" "$work/$2" | awk '{ printf "%.4f\n", $1 / $2 }' | summary)
    printf '%-26s %-24s %-24s %s\n' "$1" "$(summary <"$work/$1")" "$ratio" 0.5
}
row all-to-all permutation
row short permutation
row collectives collectives-permutation
printf '%-26s %s\n' permutation "$(summary <"$work/permutation")" collectives-permutation "$(summary <"$work/collectives-permutation")"
