#!/usr/bin/env bash
# Compiles the SimObject against the headers of a gem5 that has been built with it (see SConscript), or against the
# sources of one that has not (headers.py); links nothing.
# Usage: check.sh GEM5_BUILD|GEM5_CHECKOUT (such as gem5/build/X86, or gem5) PREFIX
set -euo pipefail
if (($# != 2)); then
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
fi
if [[ -e $1/src/sim/clocked_object.hh ]]; then
    exec python3 "$(dirname "$0")/headers.py" "$1" "$2"
fi
[[ -e $1/sim/clocked_object.hh ]] || { echo "check.sh: no headers of gem5 below $1" >&2; exit 1; }
[[ -e $1/params/AmbulatorWalker.hh ]] || { echo "check.sh: gem5 was built without src/ambulator: see SConscript" >&2; exit 1; }
g++ -std=c++17 -fsyntax-only -I"$1" -I"$2/include" -I"$(dirname "$0")" "$(dirname "$0")/ambulator_walker.cc"
echo "the SimObject compiles"
