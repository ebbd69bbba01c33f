#!/usr/bin/env bash
# Builds libambulator and installs it below a prefix: headers, static and shared library, pkg-config and CMake files.
# Usage: scripts/install-library.sh PREFIX [cargo profile, release unless given]
set -euo pipefail
if (($# < 1)); then
    echo "usage: $0 PREFIX [PROFILE]" >&2
    exit 2
fi
prefix=$(realpath -m "$1")
profile=${2:-release}
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if [[ $profile == dev ]]; then
    # Together with the tests of the workspace, whose dependencies it then shares.
    ${CARGO:-cargo} build --locked --lib --tests
else
    ${CARGO:-cargo} build --locked --profile "$profile" -p ambulator-capi
fi
built=$target/$([[ $profile == dev ]] && echo debug || echo "$profile")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
abi=$(sed -n 's/^#define AMBULATOR_ABI_VERSION \([0-9]*\)u/\1/p' crates/capi/include/ambulator.h)
# What a program needs that is linked to the static library.
private="-lpthread -lm -ldl -lrt -lgcc_s -lutil"

install -d "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/ambulator" "$prefix/share/ambulator"
install -m 644 crates/capi/include/*.h crates/capi/include/*.hpp "$prefix/include"
install -m 644 "$built/libambulator_c.a" "$prefix/lib/libambulator.a"
install -m 755 "$built/libambulator_c.so" "$prefix/lib/libambulator.so.$abi.$version"
ln -sf "libambulator.so.$abi.$version" "$prefix/lib/libambulator.so.$abi"
ln -sf "libambulator.so.$abi" "$prefix/lib/libambulator.so"
install -m 644 LICENSE-APACHE LICENSE-MIT "$prefix/share/ambulator"
cat >"$prefix/lib/pkgconfig/ambulator.pc" <<PC
prefix=\${pcfiledir}/../..
includedir=\${prefix}/include
libdir=\${prefix}/lib

Name: ambulator
Description: The operating system and the MMUs of a modelled machine inside other simulators
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lambulator
Libs.private: $private
PC
cat >"$prefix/lib/cmake/ambulator/ambulator-config.cmake" <<'CMAKE'
# Targets: ambulator::ambulator (shared), ambulator::static
get_filename_component(_ambulator_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET ambulator::ambulator)
  add_library(ambulator::ambulator SHARED IMPORTED)
  set_target_properties(ambulator::ambulator PROPERTIES
    IMPORTED_LOCATION "${_ambulator_prefix}/lib/libambulator.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_ambulator_prefix}/include")
  add_library(ambulator::static STATIC IMPORTED)
  set_target_properties(ambulator::static PROPERTIES
    IMPORTED_LOCATION "${_ambulator_prefix}/lib/libambulator.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_ambulator_prefix}/include"
    INTERFACE_LINK_LIBRARIES "pthread;m;dl;rt;gcc_s;util")
endif()
unset(_ambulator_prefix)
CMAKE
cat >"$prefix/lib/cmake/ambulator/ambulator-config-version.cmake" <<CMAKE
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
CMAKE
echo "libambulator $version is installed below $prefix; pkg-config and CMake find it with"
echo "  PKG_CONFIG_PATH=$prefix/lib/pkgconfig   and   -DCMAKE_PREFIX_PATH=$prefix"
