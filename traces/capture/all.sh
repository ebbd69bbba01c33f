#!/usr/bin/env bash
# Captures all programs of this folder, one after the other, and prints the table of docs/src/capture.md. Needs Debian 12 with
# qemu-user, `make capture-plugin` and a release build; takes some minutes.
set -euo pipefail
cd "$(dirname "$0")"
echo "| program | instructions | accesses | footprint | slowdown | accesses/s | bytes an access | gap-1 coverage | ranges | for 99% |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for script in mummer jellyfish sqlite redis memcached compiler hpcc; do
    ./$script.sh || echo "| $script | failed | | | | | | | | |"
done
