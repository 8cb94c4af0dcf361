#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm's Epilog: imports what MIOpen found and compiled in the job's directory, then removes the
# directory. If the import fails, keeps the directory as failed-JOB, the newest few of each user.
# Runs as root on each node, but accesses the job's data as the job's user. Never fails a node.
# Settings: docs/tuning.md.
set -u

config=${KILN_SLURM_CONFIG:-/etc/kiln/slurm.conf}
directories=/var/spool/kiln-jobs
kilnctl=kilnctl
timeout=60s
failed_max=4
# shellcheck source=/dev/null
[ ! -r "$config" ] || . "$config"

say() {
    echo "kiln epilog: $*" >&2
    logger -t kiln "epilog: $*" 2>/dev/null || :
}

job=${SLURM_JOB_ID:-}
user=${SLURM_JOB_USER:-}
case $job in
'' | *[!0-9]*)
    say "SLURM_JOB_ID is '$job', no number"
    exit 0
    ;;
esac
directory=$directories/$job
[ -d "$directory" ] && [ -n "$user" ] || exit 0

# Runs as the user, so that links in the directory cannot make it remove root's files.
remove() {
    runuser -u "$user" -- find "$1" -mindepth 1 -delete </dev/null || :
    [ ! -d "$1" ] || rmdir -- "$1" || say "cannot remove '$1'"
}

# Slurm reuses job numbers, also for a requeued job.
keep() {
    kept=$directories/failed-$job
    count=1
    while [ -e "$kept" ]; do
        count=$((count + 1))
        kept=$directories/failed-$job-$count
    done
    mv -- "$directory" "$kept" || return 1
    say "'$kept' has it: as $user, '$kilnctl miopen harvest $kept/overlay' tries again, then remove" \
        "it; the newest $failed_max of a user are kept"
}

remove_old() {
    find "$directories" -mindepth 1 -maxdepth 1 -name 'failed-*' -user "$user" -printf '%C@ %p\n' |
        sort -rn | tail -n "+$((failed_max + 1))" | cut -d ' ' -f 2- |
        while IFS= read -r old; do
            remove "$old"
        done
}

if [ -s "$directory/environment" ] &&
    ! runuser -u "$user" -- "$kilnctl" miopen harvest "$directory/overlay" --timeout "$timeout" \
        </dev/null; then
    say "'$kilnctl miopen harvest' could not take everything of job $job of $user"
    if keep; then
        remove_old
        exit 0
    fi
fi
remove "$directory"
exit 0
