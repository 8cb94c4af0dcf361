#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Functions that scripts/test-gpu and scripts/bench-gpu share.  Both source this file.
#
#   gpu_prepare   puts programs into $bin, from --packed DIR, --build DIR or a build of
#                 this checkout
#   gpu_results   sets $results to a directory in $work or to that of --results, whose results must
#                 be from the same programs
#   gpu_kilnd     starts a private kilnd and ends the previous one: gpu_kilnd NAME [keep]
#
# All other files are in $work. At the end of the script, $work is removed and kilnd is ended.

work=
bin=
packed=
build=
debs=
results=
own_library_path= # LD_LIBRARY_PATH before gpu_prepare, for programs that must not find $packed

# shellcheck source=scripts/kilnd.sh
. scripts/kilnd.sh

gpu_fail() {
    echo "${0##*/}: $*" >&2
    exit 2
}

gpu_end_kilnd() { stop_kilnd || true; }

gpu_end() {
    gpu_end_kilnd
    [[ -z $work ]] || rm -rf "$work"
}

# Unpacks the Debian packages that this machine lacks into the directory $work/debs, and sets the
# environment variables so that programs are built and run with these packages.
gpu_unpack_debs() {
    local root=$work/debs deb triplet
    triplet=$(uname -m)-linux-gnu
    mkdir "$root"
    for deb in "$debs"/*.deb; do
        dpkg -x "$deb" "$root"
    done
    export PKG_CONFIG_SYSROOT_DIR=$root
    export PKG_CONFIG_PATH=$root/usr/lib/$triplet/pkgconfig:$root/usr/share/pkgconfig
    export CMAKE_PREFIX_PATH=$root/usr
    export LIBRARY_PATH=$root/usr/lib/$triplet
    local libraries=$root/usr/lib/$triplet:$root/lib/$triplet
    export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PATH=$root/usr/bin:$PATH
}

gpu_prepare() {
    trap gpu_end EXIT
    # shellcheck disable=SC2034 # scripts/test-gpu uses it
    own_library_path=${LD_LIBRARY_PATH:-}
    work=$(mktemp -d /tmp/kiln-gpu-XXXXXX)
    chmod 755 "$work" # compilers of root's kilnd run as another user, who must enter $work
    [[ -z $debs ]] || gpu_unpack_debs
    if [[ -n $packed ]]; then
        [[ -x $packed/bin/kilnd ]] || gpu_fail "'$packed' was not made by scripts/pack-gpu"
        cp -r "$packed/bin" "$packed/lib" "$work"
        chmod -R a+rX "$work/bin" "$work/lib"
        bin=$work/bin
        export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    elif [[ -n $build ]]; then
        bin=$(realpath "$build")/bin
    else
        build=build/gpu
        cmake --preset release -B "$build" -DKILN_TESTS=ON >&2
        cmake --build "$build" >&2
        bin=$PWD/$build/bin
    fi
    # NVIDIA's Python packages contain cuDNN and NVRTC. The loader must search their directories,
    # because these libraries load each other.
    local directory
    while read -r directory; do
        LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$directory
    done < <(python3 -c 'import glob, nvidia; print(*(lib for path in nvidia.__path__
        for lib in sorted(glob.glob(path + "/*/lib"))), sep="\n")' 2>/dev/null | grep . || true)
    export LD_LIBRARY_PATH
    # Programs must not use the caller's tuning records and caches.
    export HOME=$work/home XDG_CONFIG_HOME=$work/home/config XDG_CACHE_HOME=$work/home/cache
    export XDG_STATE_HOME=$work/home/state
    mkdir -p "$HOME"
    unset MIOPEN_FIND_MODE MIOPEN_FIND_ENFORCE KILN_SOCKET XDG_RUNTIME_DIR
}

# gpu_results NETWORK WORD...: prepares the directory of results. Fails if it has results of an
# earlier run with other programs, another NETWORK or other WORDs.
gpu_results() {
    local of network=$1 programs
    shift
    [[ -n $results ]] || results=$work/results
    mkdir -p "$results"
    chmod 755 "$results"
    results=$(realpath "$results")
    # libkiln is a separate file and contains the code of find, tune and devices.
    programs=("$bin"/kilnd "$bin"/kiln-driver "$bin"/kiln-compiler)
    [[ ! -e $bin/gpu_trials ]] || programs+=("$bin"/gpu_trials)
    mapfile -t -O "${#programs[@]}" programs < <(ldd "$bin"/kiln-driver |
        awk '$1 ~ /^libkiln/ { print $3 }')
    of="$(cat "${programs[@]}" | sha256sum | cut -c1-16) $(sha256sum <"$network" | cut -c1-16) $*"
    [[ -e $results/of ]] || echo "$of" >"$results/of"
    [[ $of == "$(<"$results/of")" ]] ||
        gpu_fail "'$results' has results of other programs or options ($(<"$results/of")): name" \
            "another directory"
}

# gpu_kilnd NAME [keep]: starts kilnd with the directories of NAME. Empties the directories first,
# unless the second argument is "keep".
gpu_kilnd() {
    local directory=${results:-$work}/kilnd-$1
    gpu_end_kilnd
    [[ ${2:-} == keep ]] || rm -rf "$directory"
    mkdir -p "$directory"
    chmod 755 "$directory"
    export KILN_SOCKET=$work/socket-$1 # a socket's path must be short
    start_kilnd "$bin" "$directory/log" "$KILN_SOCKET" --cache-dir "$directory/cache" \
        --state-dir "$directory/state" --package-path "$directory/packages" ||
        gpu_fail "kilnd cannot be used"
}

# gpu_lines TYPE BATCH: converts the MIOpenDriver lines on standard input to TYPE (a name as in
# scripts/bench-gpu) and to the batch size BATCH.
gpu_lines() {
    local edit="s/^conv -n 1 /conv -n $2 /" layout=NCHW flag
    case $1 in
    *-nhwc | fp16 | bf16) layout=NHWC ;;
    esac
    case ${1%-*} in
    fp32) ;;
    tf32) edit+='; s/^conv .*/& --allow_tf32 1/' ;;
    fp16) edit+='; s/^conv /convfp16 /' ;;
    bf16) edit+='; s/^conv /convbfp16 /' ;;
    *) gpu_fail "the type '$1' is not fp32, tf32, fp16 or bf16, with or without -nchw or -nhwc" ;;
    esac
    if [[ $layout == NHWC ]]; then
        for flag in in_layout fil_layout out_layout; do
            edit+="; s/^conv.*/& --$flag NHWC/"
        done
        edit+='; /--spatial_dim 3/s/NHWC/NDHWC/g'
    fi
    sed "$edit"
}

gpu_is_here() {
    "$bin/kiln-driver" devices --json 2>/dev/null |
        python3 -c 'import json, sys
sys.exit(not any(d["name"] == sys.argv[1] for d in json.load(sys.stdin)["devices"]))' "$1"
}
