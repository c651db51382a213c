#!/bin/sh
# Bytes of code of an image that holds every call of an endpoint, without and with path selectors of research.
# Usage: tests/freestanding/sizes.sh [features ...], by default none, each selector, all.
set -eu
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../target}/sizes
linker=$(dirname "$(rustc --print target-libdir)")/bin/rust-lld
flavor="-flavor gnu"
[ -x "$linker" ] || { linker=ld flavor=; }
[ $# -gt 0 ] || set -- none hopper flowbender plb reps flowing-jumping research

# Code and constants of the image.
size_of() { # features level
    features=$1
    [ "$features" != none ] || features=
    CARGO_TARGET_DIR=$target/$2 CARGO_PROFILE_RELEASE_OPT_LEVEL=$2 \
        cargo build -q --release --offline --locked --features "$features"
    archive=$target/$2/release/libmrc_freestanding.a
    calls=$(sed -n 's/^    \(image_[a-z_]*\)(.*/-u \1/p' src/calls.rs)
    # shellcheck disable=SC2086
    "$linker" $flavor -static --gc-sections --no-undefined -e image_new -u image_new -u image_feed -u image_finish \
        --defsym=rust_eh_personality=0 $calls "$archive" -o "$target/image"
    size -A "$target/image" | awk '$1 ~ /^\.(text|rodata)/ { sum += $2 } END { print sum }'
}

printf '%-16s %10s %10s\n' selectors 'opt-level s' 'opt-level 3'
for features; do
    printf '%-16s %10s %10s\n' "$features" "$(size_of "$features" s)" "$(size_of "$features" 3)"
done
