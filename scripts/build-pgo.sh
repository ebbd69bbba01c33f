#!/usr/bin/env bash
# Builds `ambulator` for the work that it does (profile-guided optimisation): an instrumented build runs a little of
# everything, and a second build is compiled for what it has counted. Results are the same, bit by bit.
#
#     scripts/build-pgo.sh        two release builds; the binary is target/pgo/release/ambulator
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
counts="$target/pgo/counts"
# Crates are compiled as one: it takes longer than a release build, and is faster.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_LTO=thin AMBULATOR_STORE=none

rustup component list --installed | grep -q llvm-tools || rustup component add llvm-tools
profdata=$(find "$(rustc --print sysroot)" -name llvm-profdata | head -1)

build() { RUSTFLAGS="$2" CARGO_TARGET_DIR="$1" cargo build --release --locked -p ambulator; }

rm -rf "$counts"
build "$target/pgo/instrumented" "-Cprofile-generate=$counts"

designs=radix,thp,ecpt,me-hpt,lvm,rmm,utopia,revelator,pom-tlb,midgard,perfect-tlb,ideal
work() {
    echo "counts: $*"
    "$target/pgo/instrumented/release/ambulator" compare "$@" --designs $designs --threads 1 --no-progress >/dev/null
}
for program in "gups --footprint 2GiB" "bfs --footprint 512MiB" "pagerank --footprint 512MiB" "memcached --footprint 1GiB" traces/mummer.amb; do
    # shellcheck disable=SC2086  # A program and its footprint are words of their own.
    work $program --instructions 400K --warmup 100K
done
work gups --footprint 2GiB --instructions 1M --functional
work bfs --footprint 512MiB --instructions 1M --functional

"$profdata" merge -o "$target/pgo/counts.profdata" "$counts"
build "$target/pgo" "-Cprofile-use=$target/pgo/counts.profdata"
echo "built $target/pgo/release/ambulator"
