#!/usr/bin/env bash
# Packs every crate that is published, in order, and builds each from the packed files of those before it:
#
#   packaging/publish.sh --list       the crates, in order
#   packaging/publish.sh --dry-run    what `cargo publish --workspace` would upload; nothing leaves this machine
#   packaging/publish.sh --semver     compares with the published versions, or with --baseline-rev COMMIT
#                                     (cargo install --locked cargo-semver-checks)
#   packaging/publish.sh --api        the public interface against packaging/api/*.txt, whose changes a reviewer sees
#
# Without --dry-run nothing is uploaded either: that is `cargo publish --workspace`, by somebody with the right to do it.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(mrc-wire mrc-core mrc-core-c mrc-afxdp mrc-lab mrc-verbs-shim mrc-mapper mrc-sim mrc-conform mrc-transport)
chosen=()
for package in "${packages[@]}"; do chosen+=(-p "$package"); done
case ${1:-} in
    --list) printf '%s\n' "${packages[@]}" ;;
    --dry-run)
        # Debug information would fill the disk.
        export CARGO_PROFILE_DEV_DEBUG=0
        cargo publish --dry-run --locked "${chosen[@]}" "${@:2}"
        ;;
    --semver)
        command -v cargo-semver-checks >/dev/null || {
            echo "publish.sh: cargo install --locked cargo-semver-checks" >&2
            exit 3
        }
        cargo semver-checks "${chosen[@]}" "${@:2}"
        ;;
    --api)
        cargo doc --workspace --no-deps --locked --quiet
        packaging/api.py --check
        ;;
    *)
        sed -n '2,10s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
esac
