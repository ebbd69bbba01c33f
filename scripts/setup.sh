#!/usr/bin/env bash
# Installs what a build needs, if it is missing: a Rust toolchain with rustfmt and clippy, and a C compiler.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

packages=()
have cc || packages+=(gcc libc6-dev)
have make || packages+=(make)
have pkg-config || packages+=(pkg-config)
have cargo || packages+=(rustup)
if ((${#packages[@]})); then
    if ! have apt-get; then
        echo "setup: please install: ${packages[*]} (this script knows only apt-get)" >&2
        exit 1
    fi
    sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq || true
    # Older distributions have no package of rustup; their own Rust is then tried.
    "${sudo[@]}" apt-get install -y -qq "${packages[@]}" >/dev/null ||
        "${sudo[@]}" apt-get install -y -qq "${packages[@]/rustup/cargo}" >/dev/null
    if have rustup && ! have cargo; then rustup default stable; fi
fi

# The oldest Rust that builds this, as Cargo.toml says.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml | head -1)
have=$(rustc --version | sed 's/rustc \([0-9.]*\).*/\1/')
if [[ $(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -1) != "$wanted" ]]; then
    echo "setup: Rust $wanted or newer is needed, and $have is installed; 'rustup update stable' brings it" >&2
    exit 1
fi
