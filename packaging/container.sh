#!/usr/bin/env bash
# Builds the image of packaging/Containerfile with buildah, and runs it: packaging/container.sh [ROOT]
#
#   ROOT  a Debian root (debootstrap --variant=minbase bookworm ROOT). With it no image is pulled: the base images are made of
#         ROOT and of the Rust toolchain of this machine, under the names that the Containerfile asks for.
#
# STORE keeps the images (default: a folder that is deleted at the end). LTO=off builds faster.
# Needs root and buildah; runs inside a container, too (chroot isolation).
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "container.sh: root is needed" >&2; exit 3; }
command -v buildah >/dev/null || { echo "container.sh: buildah is needed: apt-get install buildah" >&2; exit 3; }
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
store=${STORE:-$work/store}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-overlay}
b() { buildah --root "$store" --runroot "$work/run" "$@"; }

if [ $# -gt 0 ]; then
    base=$(b from scratch)
    b add -q "$base" "$1" / >/dev/null
    b commit -q "$base" docker.io/library/debian:bookworm-slim >/dev/null
    b run "$base" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        gcc libc6-dev make git ca-certificates >/dev/null && rm -rf /var/lib/apt/lists/*'
    # The crates come as they come to this machine, which may know more certificates than Debian.
    b add -q "$base" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt >/dev/null
    toolchain=$(rustc --print sysroot)
    b add -q "$base" "$toolchain/bin" /usr/local/bin >/dev/null
    b add -q "$base" "$toolchain/lib" /usr/local/lib >/dev/null
    b commit -q "$base" docker.io/library/rust:1.95-bookworm >/dev/null
    b rm "$base" >/dev/null
fi
b build --pull-never --layers -f packaging/Containerfile --build-arg "CARGO_PROFILE_RELEASE_LTO=${LTO:-fat}" -t mrc .
image=$(b from --pull-never localhost/mrc)
b run "$image" mrc --version
b run "$image" mrc conform --filter sack/gap | tail -n 2
b run "$image" sh -c 'mrc demo --mode sim --seconds 3 --out /tmp --json' | grep -o '"integrity": *"ok"'
# The packages that it installed: equal sums as those of packaging/build.sh mean equal files.
b run "$image" md5sum /var/lib/dpkg/info/mrc.md5sums
