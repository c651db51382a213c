#!/bin/sh
# Instructions per data packet through both ends of the engine, case by case, each with its budget: unlike nanoseconds they
# do not depend on what else the machine does. Usage: benches/instructions.sh [--json] [CASE...]
# Without CASE all cases of benches/src/cases.rs that have a budget.
set -eu
cd "$(dirname "$0")/.."

json=no
if [ "${1:-}" = --json ]; then json=yes; shift; fi
command -v valgrind >/dev/null || {
    echo "instructions.sh: valgrind is missing, which counts the instructions; install the package valgrind" >&2
    exit 2
}
command -v cargo >/dev/null || { echo "instructions.sh: cargo is missing, which builds the bench" >&2; exit 2; }

log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$log" "$work"' EXIT
if [ -n "${MRC_BENCH_BINARY:-}" ]; then
    bench=$MRC_BENCH_BINARY
else
    cargo bench -q -p mrc-benches --bench engine --no-run --message-format=json >"$log"
    bench=$(sed -n 's/.*"name":"engine".*"executable":"\([^"]*\)".*/\1/p' "$log" | tail -n 1)
fi
[ -x "$bench" ] || { echo "instructions.sh: cargo named no executable for the bench engine" >&2; exit 2; }

budget() {
    awk -v name="\"$1\"" '$1 == "name:" { of = $2 } $1 == "budget:" && of == name "," { print $2 }' benches/src/cases.rs |
        tr -cd 0-9
}
[ $# -gt 0 ] || set -- one many many-ample single small small-many

missed=0
rows=
[ $json = yes ] || printf '%-12s %12s %8s\n' case instructions budget
for case; do
    out=$work/$case
    # Counts only below `transfer`, which says how many packets each of its two calls sent.
    packets=$(MRC_BENCH_CASE=$case valgrind -q --tool=callgrind --callgrind-out-file="$out" --collect-atstart=no \
        --toggle-collect='*mrc_benches::transfer' "$bench" 2>"$log") || { cat "$log" >&2; exit 1; }
    total=$(sed -n 's/^totals: *//p; s/^summary: *//p' "$out" | tail -n 1)
    per=$(awk -v total="$total" -v packets="$packets" 'BEGIN { split(packets, p, " "); printf "%.0f", total / (p[1] + p[2]) }')
    of=$(budget "$case")
    if [ -n "$of" ] && [ "$per" -gt "$of" ]; then met=false; missed=1; else met=true; fi
    if [ $json = yes ]; then
        rows="$rows${rows:+,}
    {\"case\": \"$case\", \"instructions_per_packet\": $per, \"budget\": ${of:-null}, \"met\": $met}"
    else
        printf '%-12s %12s %8s %s\n' "$case" "$per" "${of:--}" "$([ $met = true ] && echo PASS || echo MISS)"
    fi
done
if [ $json = yes ]; then
    machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    printf '{\n  "machine": "%s",\n  "cases": [%s\n  ]\n}\n' "$machine" "$rows"
fi
exit $missed
