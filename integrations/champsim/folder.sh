#!/usr/bin/env bash
# Makes a folder to build ChampSim in: links to the files of a checkout (without its tests), which stays as it is.
# Usage: folder.sh CHECKOUT FOLDER
set -euo pipefail
if (($# != 2)); then
    sed -n '2,3s/^# //p' "$0" >&2
    exit 2
fi
checkout=$(realpath "$1")
folder=$(realpath -m "$2")
mkdir -p "$folder"
for part in "$checkout"/*; do
    [[ $(basename "$part") =~ ^(vcpkg|test|docs|config|config.sh)$ ]] || cp -rsf "$part" "$folder/"
done
# These write beside themselves, and Python finds that place behind a link.
rm -rf "$folder/config"
cp -r "$checkout/config" "$checkout/config.sh" "$folder/"
if [[ -z $(ls -d "$checkout"/vcpkg_installed/*/include 2>/dev/null) ]]; then
    # The libraries of the system instead of vcpkg's; there CLI11 has headers only.
    mkdir -p "$folder/vcpkg_installed/system/include" "$folder/vcpkg_installed/system/lib"
    ar rc "$folder/vcpkg_installed/system/lib/libCLI11.a"
fi
