#!/usr/bin/env bash
# Builds the book in docs/book: generates the reference chapters from the binary, and installs mdBook under cargo's target folder if
# there is none (about a minute on two cores, once).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
ambulator=$target/release/ambulator
"$ambulator" reference settings >docs/src/reference-settings.md
"$ambulator" reference programs >docs/src/reference-programs.md
"$ambulator" reference counters >docs/src/reference-counters.md
mdbook=$(command -v mdbook || true)
if [[ -z $mdbook ]]; then
    mdbook=$target/tools/bin/mdbook
    [[ -x $mdbook ]] || cargo install mdbook --locked --no-default-features --root "$target/tools"
fi
"$mdbook" build docs
echo "the book is in docs/book/index.html"
