#!/usr/bin/env bash
# What takes too long for every change: random scenarios of the simulator, and its fuzz target where cargo-fuzz is installed.
#   tests/nightly.sh [SCENARIOS] [FUZZ_SECONDS]       10000 and 3600 by default
# MRC_RANDOM_FIRST=N begins with seed N: give every night another one.
set -euo pipefail
cd "$(dirname "$0")/.."
scenarios=${1:-10000} seconds=${2:-3600}

cargo test --release --locked -p mrc-sim --test random --no-run
MRC_RANDOM_SCENARIOS=$scenarios cargo test --release --locked -p mrc-sim --test random -- --nocapture

if command -v cargo-fuzz >/dev/null; then
    cd fuzz
    RUSTC_BOOTSTRAP=1 cargo fuzz run sim_scenario -s none -- -max_total_time="$seconds" -max_len=512 -timeout=120
else
    echo "SKIP: sim_scenario needs cargo-fuzz (cargo install --locked cargo-fuzz)"
fi
