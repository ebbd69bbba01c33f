#!/usr/bin/env bash
# What commands do when a real file system fills up: each says which file could not be written, results that were made
# before are all readable, and the same command goes on when there is room.
#
#   scripts/test-full-disk.sh [AMBULATOR]
#
# It fills a tmpfs of its own. Skips, with a line that says so, only where mounting is not permitted.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/ambulator}")
trace=$(realpath traces/mummer.amb)
folder=$(mktemp -d)
disk=$folder/disk
mounted=""
finish() { [[ ! $mounted ]] || umount "$disk"; rm -rf "$folder"; }
trap finish EXIT
mkdir "$disk"
if ! mount -t tmpfs -o size=8m tmpfs "$disk" 2>"$folder/why"; then
    if [[ ! ${INSIDE_NAMESPACE:-} ]] && unshare --user --map-root-user --mount true 2>/dev/null; then
        finish
        trap - EXIT
        INSIDE_NAMESPACE=1 exec unshare --user --map-root-user --mount "$0" "$binary"
    fi
    echo "test-full-disk: skipped: a file system cannot be mounted here ($(tail -n 1 "$folder/why"))"
    exit 0
fi
mounted=yes

unset AMBULATOR_STORE
# What cannot be kept where it was asked for goes elsewhere.
export TMPDIR=$folder/tmp
mkdir "$TMPDIR"
cd "$folder"

fail() { echo "test-full-disk: $*" >&2; cat out err >&2 2>/dev/null || true; exit 1; }
# Leaves so many KiB free.
fill() {
    rm -f "$disk/filler"
    local free
    free=$(df --output=avail -k "$disk" | tail -n 1)
    ((free <= $1)) || fallocate -l "$((free - $1))KiB" "$disk/filler"
}
# Runs the command: its exit status must be this, and what it says on standard error go to the file `err`.
expect() { # STATUS ARGUMENTS...
    local status=0
    "$binary" "${@:2}" >out 2>err || status=$?
    ((status == $1)) || fail "exit status $status, not $1: ambulator ${*:2}"
    ! grep -q panicked err || fail "a panic: ambulator ${*:2}"
}
# The lines of standard error are folded: the sentence may be.
says() { tr -s ' \n' '  ' <err | grep -qF -- "$1" || fail "expected \`$1\` in what it says"; }
cells() { "$binary" results --store "$1" --columns cell,seed,cycles,mmu.walks --csv - 2>warnings | sort; }
small=(--footprint 4MiB --instructions 20k --warmup 0 --set memory.bytes=256MiB --no-progress)

# A study whose store fills up: what fits is kept, the table is whole, and the next run computes the rest.
few=(sweep --designs radix,thp --programs gups --seeds 2 "${small[@]}")
sweep=(sweep --designs radix,thp --programs gups --seeds 20 "${small[@]}")
expect 0 "${sweep[@]}" --store whole --csv whole.csv
expect 0 "${few[@]}" --store "$disk/first"
fill 150
expect 1 "${sweep[@]}" --store "$disk/first" --csv table.csv
says "$disk/first: a result could not be added"
says "No space left on device"
says "the others are kept"
diff <(cut -d, -f1-20 whole.csv) <(cut -d, -f1-20 table.csv) >diff || fail "the table is not whole: $(head -n 5 diff)"
cells "$disk/first" >kept
! grep -v 'could not be compressed' warnings || fail "the store is damaged"
count=$(($(wc -l <kept) - 1))
((count >= 4 && count < 40)) || fail "$count cells were kept of 4 before and 40"
! diff kept <(cells whole) | grep '^<' || fail "cells that were kept are not those of a whole disk"
rm "$disk/filler"
expect 0 "${sweep[@]}" --store "$disk/first"
says "$count of 40 runs were in the store"
diff <(cells "$disk/first") <(cells whole) || fail "the completed store is not that of a whole disk"
echo "test-full-disk: $count of 40 cells fitted; the next run completed them"

# Compaction needs room for the new file: without it, everything stays.
for seed in 1 2 3; do expect 0 run gups --seed "$seed" "${small[@]}" --store "$disk/many"; done
before=$(cells "$disk/many")
fill 0
expect 1 results --compact --store "$disk/many"
says "No space left on device"
[[ $(cells "$disk/many") == "$before" ]] || fail "the store is not as before"
rm "$disk/filler"
expect 0 results --compact --store "$disk/many"
[[ $(cells "$disk/many") == "$before" && $(ls "$disk/many/cells" | wc -l) == 1 ]] || fail "it was not compacted"

# Files of results: one that was there stays, and the results are told to be elsewhere.
compare=(compare gups --designs radix,thp "${small[@]}" --store whole)
expect 0 "${compare[@]}" --json good.json
expect 0 "${compare[@]}" --json "$disk/result.json" --csv "$disk/result.csv"
cp "$disk/result.json" "$disk/result.csv" .
fill 0
expect 1 run gups --design radix "${small[@]}" --store whole --json "$disk/result.json"
says "$disk/result.json: writing failed (No space left on device"
kept=$(tr -s ' \n' '  ' <err | grep -o "$TMPDIR/ambulator-[A-Za-z0-9]*.json")
python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))["runs"]) == 1' "$kept" || fail "$kept"
cmp -s result.json "$disk/result.json" || fail "result.json is not as before"
expect 1 run gups --design radix "${small[@]}" --store whole --json "$disk/new.json"
[[ ! -e $disk/new.json ]] || fail "a part of new.json stays"
# A table that cannot be written does not stop the JSON, nor one table another.
expect 1 "${compare[@]}" --csv "$disk/result.csv" --markdown table.md --json result-2.json
says "$disk/result.csv: writing failed (No space left on device"
cmp -s result.csv "$disk/result.csv" || fail "result.csv is not as before"
grep -q '| radix |' table.md || fail "the other table is not there"
python3 -c 'import json; assert len(json.load(open("result-2.json"))["runs"]) == 2'
TMPDIR=$disk expect 1 run gups --design radix "${small[@]}" --store whole --json "$disk/new.json"
says "They could not be saved elsewhere either"

# Pages, figures, traces, and standard output.
expect 1 report whole -o "$disk/report.html"
says "$disk/report.html: writing failed (No space left on device"
expect 1 plot whole -o "$disk/figures" --format vl
says "$disk/figures"
says "No space left on device"
status=0
"$binary" trace convert "$trace" "$disk/program.amb" >out 2>err || status=$?
((status == 1 || status == 2)) || fail "exit status $status of trace convert"
says "$disk/program.amb"
says "No space left on device"
[[ -z $(find "$disk" -name '*program*') ]] || fail "parts of the trace stay: $(find "$disk" -name '*program*')"
status=0
"$binary" list counters >"$disk/counters" 2>err || status=$?
((status == 1)) || fail "exit status $status with standard output on a full disk"
says "standard output cannot be written: No space left on device"
cat >figure.toml <<'TOML'
designs = ["radix", "thp"]
programs = ["gups"]
footprint = "4MiB"
instructions = "20k"
warmup = "0"
set = ["memory.bytes=256MiB"]
[[metrics]]
name = "speed-up"
kind = "geomean-ratio"
design = "thp"
base = "radix"
measure = "ipc"
unit = "x"
source = "-"
TOML
expect 1 reproduce figure.toml --no-progress --store whole --json "$disk/figure.json" --report "$disk/figure.html"
says "$disk/figure.json: writing failed (No space left on device"
says "$disk/figure.html: writing failed (No space left on device"
rm "$disk/filler"
expect 0 report whole -o "$disk/report.html"
expect 0 trace convert "$trace" "$disk/program.amb" --records 10k
[[ -s $disk/report.html && -s $disk/program.amb ]] || fail "with room, they are not written"
left=$(find "$disk" -name '.*' -type f)
[[ -z $left ]] || fail "temporary files stay: $left"
echo "test-full-disk: nothing was lost, and every command named its file ($SECONDS s)"
