#!/usr/bin/env bash
# Tests libambulator as other simulators use it: installs it below a temporary prefix, compiles a small cycle-driven
# simulator with the installed headers through pkg-config and CMake, and runs it.
# Usage: scripts/test-library.sh [cargo profile, dev unless given] [the ambulator command to compare with]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
profile=${1:-dev}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
command=${2:-}
[[ -z $command ]] || command=$(realpath "$command")
export AMBULATOR_STORE=none

packages=()
have() { command -v "$1" >/dev/null 2>&1; }
have g++ || packages+=(g++)
have cmake || packages+=(cmake)
have pkg-config || packages+=(pkg-config)
have valgrind || packages+=(valgrind)
if ((${#packages[@]})); then
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq || true
    "${sudo[@]}" apt-get install -y -qq "${packages[@]}" >/dev/null
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
"$root/scripts/install-library.sh" "$prefix" "$profile"
cd "$work"

echo "-- compile: pkg-config with the shared library, CMake with the static one"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
warnings="-Wall -Wextra -Wshadow -Wconversion -Wpedantic -Werror"
read -ra flags <<<"$(pkg-config --cflags ambulator)"
read -ra libraries <<<"$(pkg-config --libs ambulator) -Wl,-rpath,$prefix/lib"
# shellcheck disable=SC2086
g++ -std=c++17 -O2 $warnings "${flags[@]}" "$root/integrations/stand-in/main.cpp" -o stand-in "${libraries[@]}"
# shellcheck disable=SC2086
g++ -std=c++17 -O1 $warnings "${flags[@]}" "$root/integrations/gem5/test_bridge.cpp" -o bridge "${libraries[@]}"
# shellcheck disable=SC2086
g++ -std=c++17 -O1 $warnings "${flags[@]}" "$root/integrations/stand-in/timing.cpp" -o timing "${libraries[@]}"
cmake -S "$root/integrations/stand-in" -B cmake -DCMAKE_PREFIX_PATH="$prefix" >cmake.log 2>&1 &&
    cmake --build cmake >>cmake.log 2>&1 || { cat cmake.log; exit 1; }
for language in c cpp; do
    python3 - "$root/docs/src/library.md" $language example.$language <<'PY'
import re, sys

page, language, out = sys.argv[1:]
blocks = re.findall(rf"^```{language}\n(.*?)^```$", open(page).read(), re.M | re.S)
assert blocks, f"{page} has no example in {language}"
open(out, "w").write(blocks[0])
PY
done
gcc -std=c11 -Wall -Wextra -Werror "${flags[@]}" example.c -o example-c "${libraries[@]}"
# shellcheck disable=SC2086
g++ -std=c++17 $warnings "${flags[@]}" example.cpp -o example-cpp "${libraries[@]}"

echo "-- wrong calls, and the examples of the book"
# What lives as long as the process (the tree of settings) is reachable or "possibly" lost.
valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    cmake/misuse
./example-c
./example-cpp
./timing
./bridge

echo "-- late answers, reordering, several cores, threads, unmapping"
for design in radix thp lvm me-hpt rmm utopia revelator pom-tlb; do
    for how in "--cores 3" "--cores 2 --threads --unmap" "--cores 2 --window 64 --set mmu.walkers=1"; do
        # shellcheck disable=SC2086
        ./stand-in run --design $design --accesses 4000 --pages 2048 $how >out.txt 2>err.txt ||
            { echo "$design $how"; cat err.txt; grep stand_in out.txt; exit 1; }
    done
done

echo "-- which instruction makes an access"
for how in "" --no-pc; do
    # shellcheck disable=SC2086
    ./stand-in run --design tlb-stride --strides --touch --accesses 8000 --pages 16384 --window 1 $how >"out$how.txt" 2>err.txt ||
        { cat err.txt; grep stand_in "out$how.txt"; exit 1; }
done
# Each of the four instructions has a row of its own with one stride; without them, one row finds no stride again.
known=$(awk '$1 == "mmu.prefetch_hits" { print $2 }' out.txt) none=$(awk '$1 == "mmu.prefetch_hits" { print $2 }' out--no-pc.txt)
((known > 5000 && none < 100)) || { echo "tlb-stride: $known prefetch hits with the instructions, $none without"; exit 1; }

echo "-- in a virtual machine"
for design in radix thp lvm me-hpt ecpt rmm revelator pvdmt; do
    ./stand-in run --design $design --accesses 4000 --pages 2048 --cores 2 --set virtualization.mode=nested >out.txt 2>err.txt ||
        { echo "$design"; cat err.txt; grep stand_in out.txt; exit 1; }
    grep -q "^mmu.nested.hypervisor_accesses [1-9]" out.txt || { echo "$design: no load of the hypervisor's table"; exit 1; }
done

if [[ -n $command ]]; then
    echo "-- the same counters as a run of the command on the same accesses"
    # One access after the other, as in functional mode. The trace's first line of code is fetched by both.
    ./stand-in run --accesses 20000 --window 1 --csv accesses.lackey >/dev/null 2>&1
    for design in radix thp lvm me-hpt revelator ideal; do
        ./stand-in run --design $design --accesses 20000 --window 1 >hosted.txt 2>/dev/null
        "$command" run accesses.lackey --design $design --set run.mode=functional --warmup 0 --json run.json \
            --no-progress >/dev/null 2>&1
        python3 - $design <<'PY'
import json, sys

run = json.load(open("run.json"))
run = run["runs"][0] if "runs" in run else run
theirs = run["counters"]
ours = {}
for line in open("hosted.txt"):
    name, value = line.split()
    ours[name] = int(value)
code = theirs["mmu.l1i_tlb_misses"]
assert code == 2, "one line of code: a fault, and the access again"
same = ["mmu.l1d_tlb_hits", "mmu.l1d_tlb_misses", "mmu.l2_tlb_hits", "mmu.dirty_assists", "mmu.lookaside_hits"]
for name in same:
    assert ours[name] == theirs[name], f"{sys.argv[1]}: {name} is {ours[name]} here and {theirs[name]} in a run"
for name, of_code in [("mmu.walks", 2), ("mmu.l2_tlb_misses", 2), ("mmu.faults", 1)]:
    assert ours[name] + of_code == theirs[name], f"{sys.argv[1]}: {name} is {ours[name]} here and {theirs[name]} in a run"
loads = theirs["mmu.walk_accesses"] - ours["mmu.walk_accesses"]
assert 0 <= loads <= 16, f"{sys.argv[1]}: two walks for code have {loads} loads"
print(f"{sys.argv[1]}: {ours['mmu.walks']} walks with {ours['mmu.walk_accesses']} loads in both, and those of 2 fetches of code")
PY
    done
fi
echo "libambulator works"
