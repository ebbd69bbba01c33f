#!/usr/bin/env bash
# Builds the book in docs/book. The binary generates the reference chapters. If mdBook is missing, the script installs it
# under cargo's target folder, once, in about a minute on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
ambulator=$target/release/ambulator
"$ambulator" reference designs >docs/src/reference-designs.md
"$ambulator" reference settings >docs/src/reference-settings.md
"$ambulator" reference programs >docs/src/reference-programs.md
"$ambulator" reference counters >docs/src/reference-counters.md
"$ambulator" reference terms >docs/src/reference-terms.md
mdbook=$(command -v mdbook || true)
if [[ -z $mdbook ]]; then
    mdbook=$target/tools/bin/mdbook
    [[ -x $mdbook ]] || cargo install mdbook --locked --no-default-features --root "$target/tools"
fi
"$mdbook" build docs
echo "the book is in docs/book/index.html"
