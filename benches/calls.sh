#!/bin/sh
# Instructions of one call of the engine in its worst case, by callgrind: with 64 and 4 096 queue pairs, and with 4 096 and a
# `call_budget` of 16. Usage: benches/calls.sh
set -eu
cd "$(dirname "$0")/.."
for tool in valgrind cargo; do
    command -v $tool >/dev/null || { echo "calls.sh: $tool is missing; install it" >&2; exit 2; }
done
cargo build -q --release -p mrc-core --example calls --features alloc
calls=${CARGO_TARGET_DIR:-target}/release/examples/calls
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() {
    valgrind -q --tool=callgrind --callgrind-out-file="$work/out" --collect-atstart=no \
        --toggle-collect='*calls::measured*' "$calls" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    sed -n 's/^totals: *//p; s/^summary: *//p' "$work/out" | tail -n 1
}

printf '| call | worst case | 64 QPs | 4 096 QPs | 4 096, budget 16 |\n|---|---|---|---|---|\n'
"$calls" | while IFS="$(printf '\t')" read -r case why; do
    few=$(count "$case" 64 4294967295)
    many=$(count "$case" 4096 4294967295)
    bounded=$(count "$case" 4096 16)
    printf '| `%s` | %s | %s | %s | %s |\n' "$case" "$why" "$few" "$many" "$bounded"
done
