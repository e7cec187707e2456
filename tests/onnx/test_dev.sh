#!/usr/bin/env bash
# The operators of the standard that is still in development, with its own test data, through `tgrun test`: from the
# archive that TGRUN_CONFORMANCE names (data-dev/node in it).
[ -n "${TGRUN_CONFORMANCE:-}" ] || { echo "skipped: TGRUN_CONFORMANCE names no archive"; exit 0; }
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
tar -xf "$TGRUN_CONFORMANCE" -C "$folder" --wildcards "*data-dev/*" || exit 1
XDG_CACHE_HOME=$folder "$TGRUN_PROGRAM" test -q "$folder" --tolerance standard -d cpu
