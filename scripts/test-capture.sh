#!/usr/bin/env bash
# Captures a program whose accesses are known, and one of Debian's, and compares the traces with what is known. Needs a
# build and `make capture-plugin`; installs qemu-user and gcc if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
ambulator=$(realpath "${AMBULATOR:-${CARGO_TARGET_DIR:-target}/release/ambulator}")
source=$(realpath scripts/test-capture.c)
slow=$(realpath scripts/test-advise.c)
command -v qemu-x86_64 >/dev/null && command -v gcc >/dev/null || {
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq || true
    $sudo apt-get install -y -qq --no-install-recommends qemu-user gcc libc6-dev >/dev/null
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
gcc -O1 -pthread -o known "$source"

capture() { "$ambulator" capture --no-progress "$@" >>log.txt 2>&1; }
info() { "$ambulator" trace info "$1.amb" --json >"$1.json" 2>>log.txt; }

for what in n w v t; do # n: nothing more than the others do
    capture --out $what.amb -- ./known $what
    info $what
done
capture --follow --out f.amb -- ./known f
info f
mv f.[0-9]*.amb child.amb
info child
# A child, and the process itself, become other programs: not recorded, or a trace for each.
capture --follow --out x.amb -- ./known x
info x
mv x.[0-9]*.known.amb grandchild.amb
info grandchild
for what in p P; do # P: followed
    [ $what = P ] && follow=--follow || follow=
    capture $follow --out $what.amb -- ./known p
    info $what
done
mv P.[0-9]*.known.amb place.amb
info place
printf '#! /bin/sh\nexec %s w\n' "$PWD/known" >script-w; chmod +x script-w
capture --follow --out s.amb -- /bin/sh -c ./script-w
mv s.[0-9]*.known.amb scripted.amb
info scripted
capture --skip 100k --take 150k --out window.amb -- ./known w
info window
capture --every 100k --window 10k --out windows.amb -- ./known w
info windows
capture --format champsim --out w.champsim.xz -- ./known w
"$ambulator" trace info w.champsim.xz --json >champsim.json

# The program's exit status is reported.
if capture --out e.amb -- ./known e; then echo "the program's exit status 7 was not reported"; exit 1; fi

# A program that crashes, or is killed, leaves what it has done; so does a child of its.
expect_failure() { if "$@"; then echo "this did not fail: $*"; exit 1; fi; }
expect_failure capture --out s.amb -- ./known s
info s
capture --follow --out a.amb -- ./known a || true
info a
mv a.[0-9]*.amb aborted.amb
info aborted

begins() { # TRACE: the capture in the background has written some blocks
    for _ in $(seq 200); do
        [ "$(cat "$1".*part* 2>/dev/null | wc -c)" -gt 100000 ] && return
        sleep 0.05
    done
    echo "$1 is not written"; exit 1
}
emulators() { pgrep -f "qemu-x86_64.*$PWD/known" || true; }
endless() { "$ambulator" capture --no-progress --out "$1" -- "$PWD/known" k >>log.txt 2>&1 & capturing=$!; begins "$1"; }
endless k.amb
kill -9 "$(tr -d ' ' <"/proc/$capturing/task/$capturing/children")"
expect_failure wait $capturing
info k
endless t.amb
kill -TERM $capturing
sleep 0.05
kill -TERM $capturing 2>/dev/null || true
expect_failure wait $capturing
mv t.amb term.amb
info term
# Whatever ends ambulator ends the emulator, and no folder is left.
mkdir tmp
endless never.amb
kill -9 $capturing
wait $capturing 2>/dev/null || true
TMPDIR=$PWD/tmp "$ambulator" run --live --design radix -n 100G --no-progress --quiet -- "$PWD/known" k >>log.txt 2>&1 &
living=$!
for _ in $(seq 200); do [ -n "$(emulators)" ] && break; sleep 0.05; done
kill -9 $living
wait $living 2>/dev/null || true
for _ in $(seq 100); do [ -z "$(emulators)" ] && break; sleep 0.05; done
[ -z "$(emulators)" ] || { echo "emulators outlive ambulator: $(emulators)"; exit 1; }
[ -z "$(ls tmp)" ] || { echo "temporary folders are left: $(ls tmp)"; exit 1; }
[ ! -e never.amb ] || { echo "a capture that was killed wrote its trace"; exit 1; }

# A disk that fills ends the program and keeps what fits. Mounting one needs root's rights.
mkdir disk
if mount -t tmpfs -o size=256k tmpfs disk 2>/dev/null; then
    trap 'umount "$work/disk"; rm -rf "$work"' EXIT
    expect_failure timeout 60 "$ambulator" capture --no-progress --out disk/full.amb -- ./known k >>log.txt 2>&1
    mv disk/full.amb .
    [ -z "$(ls disk)" ] || { echo "left on the full disk: $(ls disk)"; exit 1; }
    info full
fi

# A program of Debian's behaves under capture as it does without.
seq 20000 | awk '{ print ($1 * 7919) % 20011 }' >numbers.txt
sort -n numbers.txt -o native.txt
capture --out sort.amb -- sort -n numbers.txt -o captured.txt
cmp native.txt captured.txt
info sort

# Live: into a simulation, without a file; the program ends when the simulation has enough.
# Its accesses compress well: the simulation must not wait for them to fill a buffer.
timeout 60 "$ambulator" run --live --design radix --warmup 0 --instructions 300k --json live.json --no-progress --quiet -- ./known k
expect_failure "$ambulator" run --live --design radix --warmup 0 --instructions 100M --json crash.json --no-progress --quiet -- ./known s

# What must be read twice is recorded first: phases, which leave no trace, and one that is kept, which has checkpoints.
live() { timeout 120 "$ambulator" run --live --design radix --warmup 100k -n 2M --store none --no-progress --quiet "$@"; }
mkdir -p phases
TMPDIR=$PWD/phases live --sampling=phases,100k --set run.sample_window=5000 --set run.sample_timing=5000 --json phases.json \
    -- sort -n numbers.txt -o captured.txt
[ -z "$(ls phases)" ] || { echo "a run of phases leaves files: $(ls phases)"; exit 1; }
live --keep kept.amb --checkpoint kept-checkpoints --json kept.json -- sort -n numbers.txt -o captured.txt
"$ambulator" run kept.amb --design radix --warmup 100k -n 2M --store none --checkpoint kept-checkpoints --json again.json \
    --no-progress --quiet

# What makes a program slow has its function and line: while it runs, and from a trace of it.
gcc -O1 -g -fno-inline -o slow "$slow"
advise() { "$ambulator" advise --store none --no-progress --designs lvm -n 1M --warmup 200k --json "$@"; }
advise --skip 30M -- ./slow >advice-live.json
capture --skip 30M --take 2M --out slow.amb -- ./slow
advise slow.amb >advice-trace.json

# A program that cannot be captured is refused with a sentence.
printf '#!/bin/sh\necho\n' >script; chmod +x script
cp known foreign; printf '\xb7' | dd of=foreign bs=1 seek=18 conv=notrunc status=none
refused() { # WORDS PROGRAM
    local said
    if said=$("$ambulator" capture --no-progress --out refused.amb -- "$2" 2>&1); then echo "$2 was not refused"; exit 1; fi
    grep -q "$1" <<<"$said" || { echo "$2: '$1' is not in: $said"; exit 1; }
}
refused "capture its interpreter" ./script
refused "64-bit Arm" ./foreign
refused "is not found" ./nowhere

python3 - <<'PY'
import json, os

for how in ["live", "trace"]:
    advice = json.load(open(f"advice-{how}.json"))
    (code, data) = (advice["code"][0], advice["structures"][0])
    place = code["place"]
    assert place["function"] == "look_up" and place["source"].endswith("test-advise.c"), (how, code)
    line = open(place["source"]).read().splitlines()[place["line"] - 1]
    assert "table[" in line, (how, line)
    assert code["walk_cycles"] > 0.8 and data["walk_cycles"] > 0.8 and data["bytes"] >> 20 == 256, (how, code, data)
    assert {limit["kind"] for limit in advice["limits"]} & {"tlb_reach", "walk_latency"}, (how, advice["limits"])

N = 65536
of = {name: json.load(open(f"{name}.json")) for name in "n w v t f s a aborted k term child x grandchild p P place scripted window windows champsim sort".split()}
for name, info in of.items():
    assert info["damage"] is None, f"{name}: {info['damage']}"
    if name != "champsim":
        assert info["outside_mappings"] == 0, f"{name}: {info['outside_mappings']} accesses outside its mappings"

def more(name, what, known):
    found = of[name][what] - of["n"][what]
    assert found == known, f"{name}: {found} more {what} than without the loop, not {known}"

for what, known in [("loads", N), ("stores", N), ("branches", N), ("instructions", 5 * N)]:
    more("w", what, known)
more("w", "touched_pages", N * 64 // 4096)
# A vector's pieces are one access.
for what, known in [("loads", N), ("stores", 0), ("branches", N), ("instructions", 4 * N)]:
    more("v", what, known)

events = {name: dict(map(tuple, info["events"])) for name, info in of.items()}
assert events["n"]["unmap"] >= 1 and events["n"]["map"] >= 5 and events["n"]["protect"] >= 1, events["n"]
assert of["n"]["threads"] == 1, of["n"]["threads"]
assert of["t"]["threads"] == 2 and events["t"]["switch"] >= 2, (of["t"]["threads"], events["t"])
assert of["t"]["stores"] >= of["n"]["stores"] + 2 * N
assert of["t"]["loads"] >= of["n"]["loads"] + 2 * N
# The child's loop is in the child's trace, not in the parent's.
assert N <= of["child"]["stores"] < N + 10_000, of["child"]["stores"]
assert of["f"]["stores"] < of["n"]["stores"] + 10_000, of["f"]["stores"]

# Forks; exits of the child, once it has been waited for, and of the process itself.
for name in "f", "x":
    assert (events[name]["fork"], events[name]["exit"]) == (1, 2), events[name]
assert (events["n"].get("fork", 0), events["n"]["exit"], events["window"].get("exit", 0)) == (0, 1, 0), events["n"]
# The program that a process becomes is in a trace of its own. Both traces are complete and share nothing.
for name in "grandchild", "place", "scripted":
    assert abs(of[name]["stores"] - of["w"]["stores"]) < 3_000, (name, of[name]["stores"], of["w"]["stores"])
    assert of[name]["outside_mappings"] == 0 and not of[name]["notes"], (name, of[name]["notes"])
for name in "p", "P":
    assert abs(of[name]["stores"] - of["n"]["stores"]) < 3_000 and not of[name]["notes"], (name, of[name]["notes"])
    assert events[name]["exit"] == 1, events[name]

recorded = of["window"]["region_instructions"]
assert abs(recorded - 150_000) < 5_000, f"a window of 150 k has {recorded} instructions"
assert of["window"]["prepared_pages"] > 0
whole = of["w"]["instructions"]
assert 0.08 * whole < of["windows"]["instructions"] < 0.13 * whole, (whole, of["windows"]["instructions"])
assert of["champsim"]["stores"] >= N

for name, why in [("s", "the program was ended by SIGSEGV"), ("aborted", "the process was ended by a signal"),
                  ("k", "the program was ended by SIGKILL"), ("term", "the capture was interrupted")]:
    said, _, count = of[name]["cut_short"].partition(" after ")
    assert said == why, (name, of[name]["cut_short"])
    # Repetitions of a string instruction are executed many times and recorded once.
    assert 0 <= int(count.split()[0]) - of[name]["instructions"] < 10_000, (name, count, of[name]["instructions"])
    assert events[name]["exit"] == 1, events[name]
assert abs(of["s"]["stores"] - of["w"]["stores"]) < 3_000, (of["s"]["stores"], of["w"]["stores"])
assert N <= of["aborted"]["stores"] < N + 10_000 and of["a"]["cut_short"] is None, of["aborted"]["stores"]
if os.path.exists("full.json"):
    full = json.load(open("full.json"))
    assert "No space left" in full["cut_short"] and full["records"] > 100_000, full["cut_short"]
    assert full["blocks_good"] == full["blocks"] and 200_000 < full["bytes"] <= 262_144, full["bytes"]

assert of["k"]["notes"] and of["k"]["blocks_good"] >= 1 and of["k"]["records"] > 100_000, of["k"]["notes"]
assert of["sort"]["instructions"] > 1_000_000 and of["sort"]["bytes_per_access"] < 3, of["sort"]["bytes_per_access"]

run = json.load(open("live.json"))["runs"][0]
assert run["status"] == "done" and run["simulated_instructions"] >= 300_000, run["status"]
phases = json.load(open("phases.json"))["runs"][0]
assert phases["status"] == "done" and len(phases["sampled"]["intervals"]) >= 20, phases["status"]
assert 1_900_000 < phases["sampled"]["covered"] < 2_100_000, phases["sampled"]["covered"]
kept, again = (json.load(open(f"{name}.json"))["runs"][0] for name in ("kept", "again"))
assert kept["simulated_instructions"] >= 2_000_000 and again["checkpoint"], kept["simulated_instructions"]
assert kept["counters"] == again["counters"] and kept["cycles"] == again["cycles"]
assert abs(phases["ipc"] / kept["ipc"] - 1) < 0.1 + phases["sampled"]["half"]["ipc"] / kept["ipc"], (phases["ipc"], kept["ipc"])
document = json.load(open("crash.json"))
run = document["runs"][0]
assert run["status"] == "done" and abs(run["simulated_instructions"] - of["s"]["instructions"]) < 5_000, run["status"]
assert "known was ended by SIGSEGV after" in document["notes"][0], document["notes"]
print("captures hold what is known of their programs")
PY
