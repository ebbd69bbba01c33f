#!/usr/bin/env bash
# Captures a program whose accesses are known, and one of Debian's, and compares the traces with what is known. Needs a
# release build and `make capture-plugin`; installs qemu-user and gcc if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
ambulator=$(realpath "${AMBULATOR:-${CARGO_TARGET_DIR:-target}/release/ambulator}")
source=$(realpath scripts/test-capture.c)
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
info() { "$ambulator" trace info "$1.amb" --json >"$1.json"; }

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

# A capture that is killed leaves what it has written.
"$ambulator" capture --no-progress --out k.amb -- ./known k >>log.txt 2>&1 &
killed=$!
for _ in $(seq 200); do
    [ "$(stat -c %s k.amb 2>/dev/null || echo 0)" -gt 300000 ] && break
    sleep 0.1
done
kill -9 "$(tr -d ' ' <"/proc/$killed/task/$killed/children")"
wait $killed || true
info k

# A program of Debian's behaves under capture as it does without.
seq 20000 | awk '{ print ($1 * 7919) % 20011 }' >numbers.txt
sort -n numbers.txt -o native.txt
capture --out sort.amb -- sort -n numbers.txt -o captured.txt
cmp native.txt captured.txt
info sort

# Live: into a simulation, without a file; the program ends when the simulation has enough.
"$ambulator" run --live --design radix --instructions 300k --json live.json --no-progress --quiet -- ./known k

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
import json

N = 65536
of = {name: json.load(open(f"{name}.json")) for name in "n w v t f k child x grandchild p P place scripted window windows champsim sort".split()}
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

assert of["k"]["notes"] and of["k"]["blocks_good"] >= 1 and of["k"]["records"] > 100_000, of["k"]["notes"]
assert of["sort"]["instructions"] > 1_000_000 and of["sort"]["bytes_per_access"] < 3, of["sort"]["bytes_per_access"]

run = json.load(open("live.json"))["runs"][0]
assert run["status"] == "done" and run["simulated_instructions"] >= 300_000, run["status"]
print("captures hold what is known of their programs")
PY
