#!/usr/bin/env bash
# Builds a ChampSim whose page-table walkers are libambulator's. Fetches nothing: it takes a checkout of ChampSim, a
# prefix with libambulator (make install PREFIX=...), and a folder to build in. The checkout stays as it is: the
# folder gets links to its files (without its tests), with ptw.h and ptw.cc of this folder in place of two of them.
# Usage: build.sh CHECKOUT PREFIX FOLDER [CONFIGURATION.json] [further arguments of make]
set -euo pipefail
if (($# < 3)); then
    sed -n '2,6s/^# //p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(realpath "$1")
prefix=$(realpath "$2")
folder=$(realpath -m "$3")
configuration=$(realpath "${4:-$checkout/champsim_config.json}")
shift $(($# < 4 ? $# : 4))
for file in inc/ptw.h src/ptw.cc inc/ptw_builder.h config.sh Makefile; do
    [[ -e $checkout/$file ]] || { echo "build.sh: $checkout has no $file: it is no checkout of ChampSim that this module knows (May 2025)" >&2; exit 1; }
done
[[ -e $prefix/include/ambulator_engine.hpp ]] || { echo "build.sh: no libambulator below $prefix: run \`make install PREFIX=$prefix\`" >&2; exit 1; }

"$here/folder.sh" "$checkout" "$folder"
ln -sf "$here/ptw.h" "$folder/inc/ptw.h"
ln -sf "$here/ptw.cc" "$folder/src/ptw.cc"
cd "$folder"
./config.sh "$configuration"
make CPPFLAGS="-I$prefix/include" LDFLAGS="-L$prefix/lib -Wl,-rpath,$prefix/lib" LDLIBS="-lambulator" "$@"
echo "built in $folder/bin; AMBULATOR_DESIGN=lvm AMBULATOR_SET='memory.bytes=4GiB' selects the design"
