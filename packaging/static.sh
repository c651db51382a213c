#!/bin/sh
# Builds a `mrc` that needs no library of the machine: packaging/static.sh [FILE]   (default: target/mrc-static)
# As root it shows that: the program runs in a root directory with nothing else in it.
#
# The C library is glibc's, linked in; musl's target is not needed. glibc looks up host names with libraries of the machine, so
# give a static mrc addresses, not names.
set -eu
cd "$(dirname "$0")/.."
out=${1:-target/mrc-static}
triple=$(rustc -vV | sed -n 's/^host: //p')
dir=${CARGO_TARGET_DIR:-target/static}
# With --target the flags do not reach build scripts and macros, which are loaded at run time.
CARGO_TARGET_DIR=$dir RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$triple" -p mrc-transport
install -D -m 755 "$dir/$triple/release/mrc" "$out"
strip --strip-unneeded "$out"
if ldd "$out" 2>&1 | grep -q '=>'; then
    echo "static.sh: $out needs libraries" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    cp "$out" "$root/mrc"
    chroot "$root" /mrc --version
    chroot "$root" /mrc conform | grep 'passed, 0 failed'
    echo "ok: runs in a root with nothing else in it"
fi
