#!/bin/sh
# Compiles and links the client for Windows: cross_compile.sh SOURCES_ROOT FOLDER. Exit code 77, skipped, without a
# compiler (Debian: gcc-mingw-w64-x86-64; CC_WINDOWS names another one).
set -eu
compiler=${CC_WINDOWS:-x86_64-w64-mingw32-gcc}
command -v "${compiler%% *}" > /dev/null || exit 77
mkdir -p "$2"
cd "$1"
# shellcheck disable=SC2086  # CC_WINDOWS may have options
$compiler -std=c99 -Wall -Wextra -Wconversion -Wno-sign-conversion -Werror -O2 -DPENSTOCK_BUILD -I native \
  -shared -o "$2/penstock.dll" -Wl,--out-implib,"$2/penstock.lib" native/client/*.c -lws2_32
