#!/bin/sh
# The library exports what abi.txt lists and nothing else: check_abi.sh LIBRARY LIST. A line that is gone breaks
# programs; a new one is added to the list.
set -eu
found=$(nm -D --defined-only "$1" | awk '$2 == "T" || $2 == "D" || $2 == "B" { print $3 }' | LC_ALL=C sort)
[ "$found" = "$(cat "$2")" ] && exit 0
echo "$found" | diff "$2" - >&2
exit 1
