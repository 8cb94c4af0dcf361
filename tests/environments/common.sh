#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Functions for the programs that run in a view (tests/environments/view). The variables BUILD and
# KEPT are set: kiln's build directory, and a directory for files that later runs use again.

part=${0##*/}
begun=$SECONDS
logs=/var/log/kiln-test
user=alice # whose jobs run; belongs to group kiln
cuda=/usr/local/cuda
rtc_library=$cuda/lib64/libnvrtc.so

say() { printf '%s: [%3d s] %s\n' "$part" "$((SECONDS - begun))" "$*"; }
skip() {
    echo "$part: skipped: $*" >&2
    exit 77
}
fail() {
    echo "$part: FAILED: $*" >&2
    exit 1
}
expect() { [[ $2 == "$3" ]] || fail "$1 is '$2', not '$3'"; }

need() {
    local program
    for program; do
        command -v "$program" >/dev/null ||
            skip "$program is not installed: run scripts/install-deps environments"
    done
}

# Waits at most a minute until a command succeeds. Usage: wait_for WHAT COMMAND...
wait_for() {
    local what=$1 until=$((SECONDS + 60))
    shift
    while [[ $SECONDS -lt $until ]]; do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    fail "waited 60 s for $what"
}

# Installs kiln in /usr, with its accounts, a user, and the job that compiles with NVRTC. Without
# NVRTC, the job uses the fake of the tests.
install_kiln() {
    mkdir -p "$logs"
    cmake --install "$BUILD" --prefix /usr >"$logs/install.log"
    ldconfig
    systemd-sysusers /usr/lib/sysusers.d/kiln.conf 2>>"$logs/install.log"
    useradd --create-home --groups kiln "$user"
    mkdir -p /opt/job
    install -m 644 tests/environments/train.py scripts/networks/smoke.txt /opt/job
    [[ -e $rtc_library ]] || {
        cp "$BUILD"/tests/rtc/libnvrtc*.so.99* /opt/job
        cuda=/opt/job
        rtc_library=/opt/job/libnvrtc.so.99
        say "there is no NVRTC in /usr/local/cuda: using a fake one"
    }
}

# Starts kilnd as a service of the host.
start_service() {
    mkdir -p /run/kiln
    # shellcheck source=scripts/kilnd.sh
    . scripts/kilnd.sh
    start_kilnd /usr/bin "$logs/kilnd.log" /run/kiln/kilnd.sock
}

as_user() { runuser -u "$1" -- env "HOME=/home/$1" "${@:2}"; }

# Prints how many compiles of programs kilnd has answered from its store, and how many compiles it
# has stored.
counts() {
    kilnctl --socket /run/kiln/kilnd.sock stats --json | python3 -c 'import json, sys
j = json.load(sys.stdin)
print(j["client_hits"], j["client_programs"] + j["client_compiles"])'
}

# Fails unless the counts have grown by $2 answered and $3 stored compiles since the last call.
counted=(0 0)
expect_counts() {
    local now
    read -ra now <<<"$(counts)"
    expect "what kilnd answered and stored for $1" \
        "$((now[0] - counted[0])) $((now[1] - counted[1]))" "$2 $3"
    counted=("${now[@]}")
}

# Containers get no control groups of their own, because a view has no service manager. crun refuses
# to run if the host has both versions of control groups, so the view sees only version 2.
configure_podman() {
    umount --recursive --lazy /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p /etc/containers
    cat >/etc/containers/containers.conf <<'END'
[containers]
cgroups = "disabled"
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
END
    cat >/etc/containers/storage.conf <<END
[storage]
driver = "overlay"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
rootless_storage_path = "/var/lib/containers/\$USER"
END
    chmod 711 /var/lib/containers
    install -d -o "$user" -g "$user" -m 700 "/var/lib/containers/$user"
    say "$(podman --version), $(crun --version | head -n 1)"
}

# Makes KEPT/debian.tar, a Debian 12 with Python, unless an earlier run made it.
make_debian() {
    local mirror archive=$KEPT/debian.tar
    [[ ! -e $archive ]] || return 0
    # shellcheck disable=SC2016 # apt expands these variables
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "bookworm" { print $2; exit }')
    [[ -n $mirror ]] || skip "apt of this host has no source of Debian 12"
    say "a Debian 12 with Python, from $mirror"
    apt-config dump Acquire >/tmp/apt.conf
    mmdebstrap --quiet --format=tar --variant=apt --include=python3 --aptopt=/tmp/apt.conf \
        bookworm "$archive.new" "$mirror" >"$logs/mmdebstrap.log" 2>&1 || {
        tail -n 5 "$logs/mmdebstrap.log" >&2
        skip "mmdebstrap could not make a Debian 12"
    }
    mv "$archive.new" "$archive"
}
