#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs while kiln is built: compiles kiln's own kernels for one target into a package, as
# 'kilnctl pkg build' does, with a kilnd of its own that goes when this ends.
#
# Usage: build_kernels.sh PROGRAMS KILN_EMBED OUT PROBLEMS TARGET ID [MIOPEN_FILE...]
#   PROGRAMS     directory with kilnd and kilnctl
#   TARGET       gfx90a, sm_90, ...; "opencl": this host's OpenCL device, whose name goes into OUT.name
#   ID           database id of the devices that it is for, by which records are looked up, too
#   MIOPEN_FILE  FindDb and PerfDb that choose solvers, as they will where the program runs
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

# Root's kilnd would hand compilers to a user who may not enter the directory; what they read here is
# kiln's own.
users=
[ "$(id -u)" = 0 ] && users='--compiler-user root --transfer-user root'
echo '{}' >"$work/kilnd.json"
# shellcheck disable=SC2086 # two words each
"$programs/kilnd" --config "$work/kilnd.json" --socket "$work/socket" --cache-dir "$work/cache" \
    --state-dir "$work/state" --temp-dir "$work/temp" $users >"$work/log" 2>&1 &
daemon=$!
until ctl ping >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || fail "kilnd did not start: $(tail -n 3 "$work/log")"
    sleep 0.1
done
for file; do
    ctl db import "$file" >/dev/null || fail "'$file' cannot be imported: see above"
done
if [ "$target" = opencl ]; then
    target=$(ctl toolchain ls --json | sed -n 's/.*"target": *"\(opencl:[^"]*\)".*/\1/p' | head -n 1)
    [ -n "$target" ] || fail "there is no OpenCL device on this host for the target 'opencl'"
    id=$("$embed" id "$target")
    printf '%s.kpkg\n' "$id" >"$out.name"
fi
stem=$target # what kilnctl would have such a package called; it has no '/'
case "$id" in gfx*) stem=$id ;; esac
set -- --target "$target" --problems "$problems" --format kiln --output "$work/$stem.kpkg"
ctl pkg build "$@" --db-id "$id" >/dev/null || fail "not all of '$problems' can be built for $target: see above"
"$embed" package "$work/$stem.kpkg" "$out"
