#!/bin/sh
# SPDX-License-Identifier: MIT
# A build tool, which compiles kiln's own kernels for one target into a package, like 'kilnctl pkg
# build'. For this, it starts a kilnd of its own, and stops it at the end.
#
# Usage: build_kernels.sh PROGRAMS KILN_EMBED OUT PROBLEMS TARGET ID [MIOPEN_FILE...]
#   PROGRAMS     directory with kilnd and kilnctl
#   TARGET       gfx90a, sm_90, ...; or "opencl" for this host's OpenCL device. Then the package's
#                name is written to OUT.name
#   ID           database id of the devices, with which records are also looked up
#   MIOPEN_FILE  FindDb and PerfDb that determine the solvers, as in the embedded program
set -eu
programs=$1 embed=$2 out=$3 problems=$4 target=$5 id=$6
shift 6
work=$(mktemp -d "${TMPDIR:-/tmp}/kiln-embed-XXXXXX")
daemon=
leave() {
    status=$?
    trap - EXIT
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
    rm -rf "$work"
    exit "$status"
}
trap leave EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "build_kernels.sh: $*" >&2
    exit 1
}
ctl() { "$programs/kilnctl" --socket "$work/socket" "$@"; }

# As root, kilnd would run compilers as another user, who may not have access to the directory. Here
# they run as root, which is safe because they compile only kiln's own sources.
users=
[ "$(id -u)" = 0 ] && users='--compiler-user root --transfer-user root'
echo '{}' >"$work/kilnd.json"
# shellcheck disable=SC2086 # each variable has two words
"$programs/kilnd" --config "$work/kilnd.json" --socket "$work/socket" --cache-dir "$work/cache" \
    --state-dir "$work/state" --temp-dir "$work/temp" $users >"$work/log" 2>&1 &
daemon=$!
tries=600
until ctl ping >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || fail "kilnd did not start: $(tail -n 3 "$work/log")"
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "kilnd did not answer within a minute: $(tail -n 3 "$work/log")"
    sleep 0.1
done
for file; do
    ctl db import "$file" >/dev/null || fail "cannot import '$file': see above"
done
if [ "$target" = opencl ]; then
    target=$(ctl toolchain ls --json | sed -n 's/.*"target": *"\(opencl:[^"]*\)".*/\1/p' |
        head -n 1)
    [ -n "$target" ] || fail "there is no OpenCL device on this host for the target 'opencl'"
    id=$("$embed" id "$target")
    printf '%s.kpkg\n' "$id" >"$out.name"
fi
stem=$target # kilnctl requires this file name, which has no '/'
case "$id" in gfx*) stem=$id ;; esac
set -- --target "$target" --problems "$problems" --format kiln --output "$work/$stem.kpkg"
ctl pkg build "$@" --db-id "$id" >/dev/null ||
    fail "cannot build all of '$problems' for $target: see above"
"$embed" package "$work/$stem.kpkg" "$out"
