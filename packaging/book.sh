#!/bin/sh
# Builds the pages of docs/ as a book with search, in target/book: packaging/book.sh [--install]
# --install gets mdBook from the registry first. Dead links are a test: cargo test -p mrc-transport --test pages
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = --install ]; then
    cargo install --locked --quiet --root target/tools mdbook
fi
mdbook=target/tools/bin/mdbook
[ -x "$mdbook" ] || mdbook=$(command -v mdbook) || { echo "book.sh: no mdbook; packaging/book.sh --install" >&2; exit 3; }
"$mdbook" build
echo "target/book/index.html"
