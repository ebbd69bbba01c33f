#!/usr/bin/env bash
# Builds the wheel of the Python package and tests it: tests, types, the notebook. (Its compiled half is linted with the
# workspace.) Installs what that needs into an environment of its own, in the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target CARGO_TERM_COLOR=never
venv=$target/python-venv
packages=(maturin mypy pytest numpy pandas polars duckdb nanoarrow nbclient ipykernel vl-convert-python)

step() { printf '\n== Python: %s (%ss)\n' "$1" "$SECONDS"; }

step "environment"
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "test-python: please install Python 3.11 or newer with venv (this script knows only apt-get)" >&2
        exit 1
    fi
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq || true
    "${sudo[@]}" apt-get install -y -qq python3 python3-venv >/dev/null
fi
if [[ ! -f $venv/packages || $(<"$venv/packages") != "${packages[*]}" ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
    echo "${packages[*]}" >"$venv/packages"
fi
export PATH=$venv/bin:$PATH

# The profile of the tests of the workspace, whose dependencies are built already.
step "wheel"
wheels=$target/wheels-python
rm -rf "$wheels"
maturin build --quiet --locked --profile dev --compatibility linux --out "$wheels"
ls "$wheels"/ambulator-*-cp311-abi3-*.whl
pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheels"/*.whl

step "tests"
python -m pytest --quiet python/tests

step "types"
python scripts/python-stubs.py --check
mypy
python -m mypy.stubtest ambulator --mypy-config-file pyproject.toml --allowlist python/stubtest-allowlist.txt

step "the example and the notebook, small"
python examples/python/linear_probing.py >/dev/null
python scripts/run-notebook.py --small

step "done"
