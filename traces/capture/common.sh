# Shared by the scripts of this folder: each installs a program from Debian, makes its input, captures a window of it, and
# prints a row of the table in docs/src/capture.md. Sourced, not run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
ambulator=${AMBULATOR:-$here/target/release/ambulator}
work=${CAPTURE_WORK:-$(mktemp -d)}
mkdir -p "$work"
cd "$work"

# need PACKAGE COMMAND: installs the package unless the command is there.
need() {
    command -v "$2" >/dev/null && return
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get install -y --no-install-recommends "$1" >/dev/null
}

# dna BASES SEED NAME: random bases in FASTA, the same on every machine.
dna() {
    awk -v bases="$1" -v state="$2" -v name="$3" 'BEGIN {
        print ">" name
        for (i = 0; i < bases; i += 80) {
            line = ""
            for (j = i; j < i + 80 && j < bases; j++) {
                # Products stay below 2^53: awk computes with doubles.
                state = (state * 16807) % 2147483647
                line = line substr("ACGT", int(state / 536870912) + 1, 1)
            }
            print line
        }
    }'
}

# measure NAME NATIVE_SECONDS TRACE CAPTURE_SECONDS [SHARE]: the row. The slowdown compares the whole run natively with the whole run
# captured, where both ran whole; else it is left out.
row() {
    "$ambulator" trace info "$3" --json >info.json
    python3 - "$1" "$2" "$4" <<'PY'
import json, sys
name, native, captured = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
info = json.load(open("info.json"))
accesses = info["loads"] + info["stores"]
regular = info["regularity"]
slowdown = f"{captured / native:.0f}x" if native > 0 else "-"
print(f"| {name} | {info['instructions'] / 1e6:.0f} M | {accesses / 1e6:.0f} M | {regular['pages'] * 4096 / 2**20:.0f} MiB | {slowdown} | "
      f"{accesses / captured / 1e6:.1f} M | {info['bytes'] / max(accesses, 1):.2f} | {100 * regular['gap_1_coverage']:.1f}% | "
      f"{regular['ranges']} | {regular['ranges_for_99_percent']} |")
assert info["outside_mappings"] == 0, f"{name}: {info['outside_mappings']} accesses are outside the trace's mappings"
assert info["damage"] is None
PY
}

seconds() { # runs the rest, prints how long it took
    local began ended
    began=$(date +%s.%N)
    "$@" >/dev/null 2>&1
    ended=$(date +%s.%N)
    echo "$ended - $began" | bc
}
