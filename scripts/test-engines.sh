#!/usr/bin/env bash
# Runs the examples of the chapter on clusters under Snakemake and Dask, and those of the chapter on results under
# DuckDB, polars and pandas, as the book has them.
#
#   scripts/test-engines.sh [AMBULATOR]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
binary=$(realpath "${1:-$target/release/ambulator}")
venv=${VENV:-$target/engines-venv}
packages=(snakemake "dask[distributed]" duckdb polars pandas zstandard)
if [[ ! -f $venv/packages || $(<"$venv/packages") != "${packages[*]}" ]]; then
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        apt-get update -qq || true
        apt-get install -y -qq python3-venv >/dev/null
    fi
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
    echo "${packages[*]}" >"$venv/packages"
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
ln -s "$binary" "$folder/bin/ambulator"
export PATH=$folder/bin:$venv/bin:$PATH
unset AMBULATOR_STORE
cd "$folder"

# The code block of a chapter that follows `<!-- tested: scripts/test-engines.sh NAME -->`.
example() { # CHAPTER NAME
    python3 - "$root/docs/src/$1" "$2" <<'PY' >"$2"
import pathlib, re, sys

path, name = sys.argv[1:]
mark = re.escape(f"<!-- tested: scripts/test-engines.sh {name} -->")
found = re.search(mark + r"\n```\w+\n(.*?)^```", pathlib.Path(path).read_text(), flags=re.S | re.M)
sys.exit(f"{path} has no example {name}") if not found else print(found[1], end="")
PY
}
cat >study.toml <<'TOML'
designs = ["radix", "thp"]
programs = ["gups", "stream"]
footprint = "8MiB"
instructions = "200k"
warmup = "0"
set = ["memory.bytes=256MiB", "memory.fragmentation.fmfi=0.0"]
TOML
cells() { ambulator results --store "$1" --columns cell,ipc,mmu.walks --csv - | sort; }

example clusters.md Snakefile
snakemake --cores 2 table >snakemake.log 2>&1 || { cat snakemake.log >&2; exit 1; }
cells out/results >snakemake.txt
[[ $(wc -l <snakemake.txt) == 5 && $(wc -l <study.csv) == 5 ]] || { cat snakemake.txt study.csv >&2; exit 1; }
echo "test-engines: 4 shards under Snakemake: 4 cells ($SECONDS s)"

rm -rf out part-*
example clusters.md dask_sweep.py
python3 dask_sweep.py >dask.log 2>&1 || { cat dask.log >&2; exit 1; }
cells out/results | cmp - snakemake.txt || { cat dask.log >&2; exit 1; }
echo "test-engines: 2 workers under Dask: the same cells ($SECONDS s)"

for name in rows_duckdb.py rows_polars.py rows_pandas.py; do
    example results.md "$name"
    python3 "$name" >"$name.log" 2>&1 || { cat "$name.log" >&2; exit 1; }
    grep -q radix "$name.log" && grep -q thp "$name.log" || { echo "test-engines: $name printed:" >&2; cat "$name.log" >&2; exit 1; }
done
[[ -s results.parquet ]] || { echo "test-engines: there is no results.parquet" >&2; exit 1; }
echo "test-engines: DuckDB, polars and pandas read the rows ($SECONDS s)"
