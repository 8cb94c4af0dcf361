#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs precompiled kernels for the AMD GPUs of this host, from the distribution's packages or
# from a server of the site.
set -euo pipefail

usage() {
    cat <<'EOF'
Usage: install_precompiled_kernels.sh [FLAGS]

Finds the GPUs of this host and their compute units. For each kind of GPU, installs
  1. the distribution's package: miopenkernels-<arch>-<cu>, or its name in later releases of MIOpen
     (miopenkernels-<arch>-<cu>kdb, miopen-hip-<arch>-<cu>kdb, miopen-hip-<arch>kdb); else
  2. the file at the URL of the template, with 'kilnctl pkg install'.

  --arch ARCH    use this arch (gfx90a) instead of the GPUs of this host
  --num-cu N     use this number of compute units; on gfx10 and later, the number that the runtime
                 reports, which is half as large
  --url TEMPLATE the second source: {arch}, {cu} and {database_id} are replaced, as in
                 https://example.org/{database_id}.kdb.bz2 (variable KILN_PACKAGE_URL)
  --kfd DIR      read the GPUs from here (default: /sys/class/kfd/kfd/topology/nodes)
  --dry-run      print the actions, and change nothing. Prints every package name to try, because
                 a real run updates the package lists first

Exits with 0 if every kind of GPU has a package (in a dry run: something to try), else with 1.
EOF
}

say() { printf '%s\n' "install_precompiled_kernels: $*"; }
complain() { say "$@" >&2; }

refuse() {
    complain "$@"
    exit 2
}

arch=
num_cu=
url=${KILN_PACKAGE_URL:-}
kfd=/sys/class/kfd/kfd/topology/nodes
dry_run=no
while [[ $# -gt 0 ]]; do
    case "$1" in
    --dry-run) dry_run=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    --arch | --num-cu | --url | --kfd)
        [[ $# -gt 1 && -n $2 ]] || refuse "$1 needs a value (see --help)"
        case "$1" in
        --arch) arch=$2 ;;
        --num-cu) num_cu=$2 ;;
        --url) url=$2 ;;
        --kfd) kfd=$2 ;;
        esac
        shift
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
[[ -z $arch || $arch =~ ^gfx[0-9a-f]{3,4}$ ]] ||
    refuse "'$arch' is not an arch: use gfx90a or gfx1030, for example, without features"
[[ -z $num_cu || $num_cu =~ ^[1-9][0-9]{0,3}$ ]] ||
    refuse "'$num_cu' is not a number of compute units (1 to 9999)"

# Prints "<arch> <compute units>" for each GPU. Linux before 5.16 does not report
# gfx_target_version, so the PCI device id then identifies the GPUs for which there are packages.
found_gpus() {
    local properties
    for properties in "$kfd"/*/properties; do
        [[ -r $properties ]] && awk '
            function arch_of_device(id) {
                if (id >= 26272 && id <= 26287) return "gfx906" # 0x66a0-
                if (id >= 26720 && id <= 26751) return "gfx900" # 0x6860-
                if (id >= 29576 && id <= 29584) return "gfx908" # 0x7388-
                if (id >= 29600 && id <= 29631) return "gfx1030" # 0x73a0-
                if (id >= 29704 && id <= 29712) return "gfx90a" # 0x7408-
                return ""
            }
            { value[$1] = $2 }
            END {
                if (value["simd_count"] + 0 == 0 || value["simd_per_cu"] + 0 == 0) exit
                version = value["gfx_target_version"] + 0
                arch = version == 0 ? arch_of_device(value["device_id"] + 0) : \
                    sprintf("gfx%d%x%x", int(version / 10000), int(version / 100) % 100, \
                            version % 100)
                units = value["simd_count"] / value["simd_per_cu"]
                if (length(arch) > 6) units = units / 2 # count work group processors
                if (arch == "") print FILENAME > "/dev/stderr"
                else printf "%s %d\n", arch, units
            }' "$properties" \
            2> >(sed 's/^/install_precompiled_kernels: unknown GPU, left out: /' >&2)
    done
    return 0
}

# Prints "<arch> <compute units>" for each package to install. 0 stands for the package whose name
# does not contain a number of compute units.
wanted() {
    if [[ -n $arch && -n $num_cu ]]; then
        echo "$arch $num_cu"
        return
    fi
    found_gpus | sort -u | awk -v arch="$arch" -v units="$num_cu" '
        arch == "" || $1 == arch { print $1, units == "" ? $2 : units; found = 1 }
        END { if (!found && arch != "") print arch, 0 }' | sort -u
}

# Prints how MIOpen's file names begin: the arch and the number of compute units. A number up to 64
# is decimal and follows a '_'. A higher number is hexadecimal, without '_'.
database_id() {
    if (($2 == 0)); then
        echo "$1"
    elif (($2 <= 64)); then
        echo "$1_$2"
    else
        printf '%s%x\n' "$1" "$2"
    fi
}

package_names() {
    if (($2 > 0)); then
        echo "miopenkernels-$1-$2"
        echo "miopenkernels-$1-$2kdb"
        echo "miopen-hip-$1-$2kdb"
    fi
    echo "miopen-hip-$1kdb"
}

manager=
for candidate in apt-get dnf yum zypper; do
    if command -v "$candidate" >/dev/null; then
        manager=$candidate
        break
    fi
done

is_known() {
    case "$manager" in
    apt-get) apt-cache show "$1" ;;
    dnf | yum) "$manager" --quiet info "$1" ;;
    zypper) zypper --non-interactive search --match-exact "$1" ;;
    *) false ;;
    esac >/dev/null 2>&1
}

# Removes possible secrets from a text: passwords in URLs, and the queries of URLs, which may
# contain signatures.
without_secrets() { sed -E 's#(https?://)[^/@ ]*@#\1#g; s#(https?://[^? ]*)\?[^ ]*#\1#g' <<<"$*"; }

run() {
    if [[ $dry_run == yes ]]; then
        say "would run: $(without_secrets "$@")"
    else
        say "runs: $(without_secrets "$@")"
        "$@"
    fi
}

run_as_root() {
    if [[ $EUID -eq 0 ]]; then
        run "$@"
    elif command -v sudo >/dev/null; then
        run sudo "$@"
    elif [[ $dry_run == yes ]]; then
        say "would run as root: $*"
    else
        complain "not root, and there is no sudo; as root run: $*"
        return 1
    fi
}

install_command() {
    case "$manager" in
    apt-get) echo "env DEBIAN_FRONTEND=noninteractive apt-get install -y $1" ;;
    dnf | yum) echo "$manager -y install $1" ;;
    zypper) echo "zypper --non-interactive install $1" ;;
    esac
}

install_package() {
    local words
    read -ra words < <(install_command "$1")
    run_as_root "${words[@]}"
}

from_distribution() {
    local name
    while read -r name; do
        if ! is_known "$name"; then
            [[ $dry_run == no || -z $manager ]] ||
                say "would try, once $manager knows it: $(install_command "$name")"
            continue
        fi
        install_package "$name" </dev/null && return 0
        complain "'$manager' could not install '$name'; its message above says why"
    done < <(package_names "$1" "$2")
    return 1
}

# Finds the kilnctl that is installed with this script or, if there is none, the one in PATH.
find_kilnctl() {
    local ours
    ours=$(dirname "$0")/../../bin/kilnctl
    if [[ -x $ours ]]; then
        echo "$ours"
    else
        command -v kilnctl
    fi
}

from_url() {
    local place kilnctl
    [[ -n $url ]] || return 1
    if ! kilnctl=$(find_kilnctl); then
        complain "kilnctl is not here, which installs packages from URLs"
        return 1
    fi
    if (($2 == 0)) && [[ $url == *'{cu}'* ]]; then
        complain "the URL needs compute units: name them with --num-cu"
        return 1
    fi
    place=${url//'{arch}'/$1}
    place=${place//'{cu}'/$2}
    place=${place//'{database_id}'/$(database_id "$1" "$2")}
    run "$kilnctl" pkg install "$place" </dev/null
}

mapfile -t kinds < <(wanted)
if [[ ${#kinds[@]} -eq 0 ]]; then
    complain "no AMD GPU is listed in '$kfd': load the amdgpu driver, or name one with --arch and" \
        "--num-cu"
    exit 1
fi

if [[ $manager == apt-get ]]; then # apt's lists may be older than the package
    run_as_root apt-get update -qq ||
        complain "apt-get update complained; going on with the lists that are here"
fi

explain() {
    local names
    names=$(package_names "$1" "$2" | paste -sd ' ')
    complain "no precompiled kernels for $(database_id "$1" "$2")"
    if [[ -z $manager ]]; then
        complain "  there is none of apt-get, dnf, yum and zypper here to ask for packages"
    else
        complain "  $manager installed none of $names; they are in AMD's ROCm repository"
    fi
    if [[ -z $url ]]; then
        complain "  a server with packages can be named by --url"
    else
        complain "  '$(without_secrets "$url")' gave none either"
    fi
}

missing=0
for kind in "${kinds[@]}"; do
    read -r gpu units <<<"$kind"
    say "looks for $(database_id "$gpu" "$units")"
    if ! from_distribution "$gpu" "$units" && ! from_url "$gpu" "$units" &&
        [[ $dry_run == no || -z $manager ]]; then
        missing=$((missing + 1))
        explain "$gpu" "$units"
    fi
done
((missing == 0))
