#!/usr/bin/env bash
# Runs every command of the quick starts and of the operators' page where nothing but Debian and the packages is installed, and
# compares what they print with what the pages show: packaging/pages.sh ROOT FOLDER [PAGE...]
#
#   ROOT    a Debian root: debootstrap --variant=minbase --include=iproute2,gcc,libc6-dev,tshark bookworm ROOT
#   FOLDER  where packaging/build.sh put the packages of this commit
#
# The page for firmware engineers builds from the source tree: it gets this tree, and the Rust toolchain of this machine, read-only.
# Needs root. docs/quickstart.py does the comparing.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "pages.sh: root is needed for chroot and network namespaces" >&2; exit 3; }
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
if [ "${MRC_PAGES_INSIDE:-}" != 1 ]; then
    exec env MRC_PAGES_INSIDE=1 unshare -m -n --propagation private "$0" "$@"
fi
root=$(realpath "$1") packages=$(realpath "$2") tree=$(cd "$(dirname "$0")/.." && pwd)
shift 2
pages=("$@")
[ ${#pages[@]} -gt 0 ] || pages=(quickstart-tester quickstart-researcher quickstart-operator quickstart-firmware operations)
. "$tree/packaging/root.sh"

inside dpkg -i $(cd "$at" && ls packages/*.deb | sed 's,^,/,') >/dev/null
# The tree is read-only; Cargo writes beside it.
toolchain=$(rustc --print sysroot)
registry=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$at/src" "$at/toolchain" "$at/cargo" "$at/tmp/target"
mount --bind "$tree" "$at/src"
mount --bind "$toolchain" "$at/toolchain"
mount -t overlay overlay -o "lowerdir=$registry,upperdir=$(mktemp -d "$work/XXXX"),workdir=$(mktemp -d "$work/XXXX")" "$at/cargo"
path=/toolchain/bin:/usr/sbin:/usr/bin:/sbin:/bin
export RUN_IN="chroot $at env -i PATH=$path HOME=/root REPO=/src CARGO_HOME=/cargo CARGO_NET_OFFLINE=true CARGO_TARGET_DIR=/tmp/target"
status=0
for page in "${pages[@]}"; do
    python3 "$tree/docs/quickstart.py" "$tree/docs/$page.md" || status=1
done
exit $status
