#!/usr/bin/env bash
# Fuzzes: fuzz/run.sh [SECONDS] [TARGET...]; by default each target for a minute. Stable Rust suffices.
# A crash leaves its input in fuzz/artifacts/TARGET and stops with the command that runs it again.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
targets=("${@:2}")
if ((${#targets[@]} == 0)); then targets=(trace header block wire open champsim lackey drmemtrace gem5 perf v2p graph maps store program spec machine); fi
triple=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-$PWD/../target/fuzz}
# What cargo-fuzz passes, except the address sanitizer, which stable Rust lacks. Code without `unsafe` needs it least.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1"
# Each check of the tests, and no time for links.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_LTO=off
# The C++ of libFuzzer, and a program without instrumentation that writes the seeds.
RUSTFLAGS='' cargo run --quiet --release --target-dir "$target_dir/plain" --bin seeds -- seeds
# With --target, build scripts and procedural macros are not instrumented.
cargo build --quiet --release --target "$triple" --target-dir "$target_dir" "${targets[@]/#/--bin=}"
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target" "seeds/$target"
    echo "== $target, $seconds s"
    binary=$target_dir/$triple/release/$target
    if ! "$binary" "corpus/$target" "seeds/$target" -artifact_prefix="artifacts/$target/" \
        -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 >"artifacts/$target/log" 2>&1; then
        tail -n 40 "artifacts/$target/log"
        echo "reproduce: $binary artifacts/$target/FILE" >&2
        exit 1
    fi
    grep -E 'DONE|number_of_executed_units|peak_rss_mb' "artifacts/$target/log"
done
