#!/usr/bin/env bash
# Builds the Debian packages: packaging/build.sh [FOLDER]   (default: target/packages)
#
#   mrc_VERSION_ARCH.deb        the program, manual pages, completions, libibverbs.so and lib_mrc.so in /usr/lib/mrc, dissector
#   libmrc-dev_VERSION_ARCH.deb headers, libmrc_core.a for firmware, pkg-config files
#
# Two builds of the same commit with the same compiler give the same bytes: no path, time or user gets into the files.
# CARGO_PROFILE_RELEASE_LTO=off builds faster, for tests.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/target/packages}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$root"

for tool in cargo dpkg-deb gzip strip; do
    command -v "$tool" >/dev/null || { echo "build.sh: $tool is needed" >&2; exit 3; }
done

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
arch=$(dpkg --print-architecture)
triple=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
export MRC_COMMIT=${MRC_COMMIT:-$(git rev-parse --short=12 HEAD)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target/package} CARGO_INCREMENTAL=0 LC_ALL=C TZ=UTC
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$root=/usr/src/mrc --remap-path-prefix=$cargo_home=/usr/src/cargo"
umask 022

echo "== mrc $version ($MRC_COMMIT) for $arch"
cargo build --release --locked -p mrc-transport -p mrc-ibverbs -p mrc-libmrc
# The static library is a workspace of its own, so Cargo puts the place of the crates beside it into symbol names: give it one place.
# It always has link-time optimisation: without it calls of a panic remain, and no program can be linked with it.
fixed=/tmp/mrc-package-source
exec 9>"$fixed.lock" && flock 9
ln -sfn "$root" "$fixed"
# Others can make files in /tmp, too: what is built there must be this tree.
[ "$(readlink "$fixed")" = "$root" ] && [ "$(stat -c %u "$fixed")" = "$(id -u)" ] ||
    { echo "build.sh: $fixed is in the way and not ours: remove it" >&2; exit 3; }
RUSTFLAGS="$RUSTFLAGS --remap-path-prefix=$fixed=/usr/src/mrc" \
    env -u CARGO_PROFILE_RELEASE_LTO -u CARGO_PROFILE_RELEASE_CODEGEN_UNITS \
    cargo build --release --locked --manifest-path "$fixed/mrc-core-c/static/Cargo.toml"
rm "$fixed"
flock -u 9
built=$CARGO_TARGET_DIR/release

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# put MODE FROM TO: installs one file.
put() { install -D -m "$1" "$2" "$3"; }

# package NAME RELATIONS DESCRIPTION: makes the package of what lies in $stage/NAME, with the scripts of packaging/debian.
package() {
    local name=$1 relations=$2 dir=$stage/$1 script
    put 644 LICENSE-MIT "$dir/usr/share/doc/$name/LICENSE-MIT"
    put 644 LICENSE-APACHE "$dir/usr/share/doc/$name/LICENSE-APACHE"
    printf 'mrc: MIT or Apache 2.0, at your choice. Both texts lie beside this file.\n' >"$dir/usr/share/doc/$name/copyright"
    gzip -9nc CHANGELOG.md >"$dir/usr/share/doc/$name/changelog.gz"
    mkdir -p "$dir/DEBIAN"
    for script in packaging/debian/"$name".*; do
        [ ! -e "$script" ] || put 755 "$script" "$dir/DEBIAN/${script##*.}"
    done
    cat >"$dir/DEBIAN/control" <<EOF
Package: $name
Version: $version
Architecture: $arch
Maintainer: The MRC in software project <mrc@example.invalid>
Installed-Size: $(du -sk --apparent-size "$dir" | cut -f1)
$relations
Section: net
Priority: optional
Description: $3
EOF
    (cd "$dir" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$dir" -print0 | xargs -0 touch -h -d "@$SOURCE_DATE_EPOCH"
    dpkg-deb --root-owner-group -Zgzip --build "$dir" "$out/${name}_${version}_$arch.deb" >/dev/null
    sha256sum "$out/${name}_${version}_$arch.deb"
}

# The program and the libraries that it gives to other programs.
dir=$stage/mrc
put 755 "$built/mrc" "$dir/usr/bin/mrc"
put 644 "$built/libibverbs.so" "$dir/usr/lib/mrc/libibverbs.so"
put 644 "$built/lib_mrc.so" "$dir/usr/lib/mrc/lib_mrc.so"
strip --strip-unneeded "$dir/usr/bin/mrc" "$dir"/usr/lib/mrc/*.so
ln -s lib_mrc.so "$dir/usr/lib/mrc/libnv_mrc.so"
"$built/mrc" man --out "$dir/usr/share/man/man1"
gzip -9n "$dir"/usr/share/man/man1/*.1
mkdir -p "$dir/usr/share/bash-completion/completions" "$dir/usr/share/zsh/vendor-completions" \
    "$dir/usr/share/fish/vendor_completions.d"
"$built/mrc" completions bash >"$dir/usr/share/bash-completion/completions/mrc"
"$built/mrc" completions zsh >"$dir/usr/share/zsh/vendor-completions/_mrc"
"$built/mrc" completions fish >"$dir/usr/share/fish/vendor_completions.d/mrc.fish"
for unit in packaging/systemd/*.service; do put 644 "$unit" "$dir/usr/lib/systemd/system/$(basename "$unit")"; done
put 644 dissector/mrc.lua "$dir/usr/share/mrc/mrc.lua"
for page in docs/*.md; do put 644 "$page" "$dir/usr/share/doc/mrc/$(basename "$page")"; done
package mrc "Depends: libc6 (>= 2.34), libgcc-s1
Recommends: iproute2 (>= 6.1)" "MRC (Multipath Reliable Connection) in software
 RDMA writes over many paths and planes without special hardware: a userspace
 NIC over AF_XDP and SRv6, fabrics of network namespaces to break, a simulator,
 conformance tests. iproute2 6.1 is needed for fabrics."

# For those who build programs and firmware.
dir=$stage/libmrc-dev
for header in mrc-ibverbs/include/*.h; do put 644 "$header" "$dir/usr/include/mrc/$(basename "$header")"; done
for file in conform-agent/*; do
    mode=644
    [ ! -x "$file" ] || mode=755
    put "$mode" "$file" "$dir/usr/share/mrc/conform-agent/$(basename "$file")"
done
put 644 mrc-core-c/include/mrc_core.h "$dir/usr/include/mrc/mrc_core.h"
put 644 "$built/libmrc_core.a" "$dir/usr/lib/$triple/libmrc_core.a"
strip --strip-debug --enable-deterministic-archives "$dir/usr/lib/$triple/libmrc_core.a"
mkdir -p "$dir/usr/lib/$triple/pkgconfig"
cat >"$dir/usr/lib/$triple/pkgconfig/mrc-core.pc" <<EOF
Name: mrc-core
Description: MRC transport engine for firmware: no libc, no allocation
Version: $version
Cflags: -I/usr/include/mrc
Libs: -L/usr/lib/$triple -lmrc_core
EOF
cat >"$dir/usr/lib/$triple/pkgconfig/mrc.pc" <<EOF
Name: mrc
Description: MRC API (lib_mrc.so) over the verbs of the same project
Version: $version
Requires: libibverbs
Cflags: -I/usr/include/mrc
Libs: -L/usr/lib/mrc -Wl,-rpath,/usr/lib/mrc -l_mrc
EOF
package libmrc-dev "Depends: mrc (= $version)
Recommends: libibverbs-dev, pkg-config" "headers and static library of MRC in software
 mrc_core.h and libmrc_core.a for NIC firmware, mrc.h for programs over verbs,
 and their pkg-config files. mrc.h needs the verbs header of libibverbs-dev."
