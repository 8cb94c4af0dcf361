#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm's Prolog: compiles what the user's earlier jobs of this name used, and makes a directory for
# the job, from which an unmodified MIOpen reads kiln's records and kernels. Runs as root on each
# node, but accesses the job's data as the job's user. Always exits with 0, so that no job fails
# because of it. docs/tuning.md lists the settings, and explains how the three scripts work
# together.
set -u
# slurmd sets no PATH. sh finds programs without it, but timeout and runuser do not find all.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH

config=${KILN_SLURM_CONFIG:-/etc/kiln/slurm.conf}
directories=/var/spool/kiln-jobs
kilnctl=kilnctl
miopen=
db_id=
timeout=60s
prefetch=
squeue=squeue
# shellcheck source=/dev/null
[ ! -r "$config" ] || . "$config"

say() {
    printf '%s\n' "kiln prolog: $*" >&2
    logger -t kiln "prolog: $*" 2>/dev/null || :
}

give_up() {
    say "$*; the job runs without kiln's databases"
    exit 0
}

job=${SLURM_JOB_ID:-}
user=${SLURM_JOB_USER:-}
case $job in
'' | *[!0-9]*) give_up "SLURM_JOB_ID is '$job', no number" ;;
esac
[ -n "$user" ] || give_up "SLURM_JOB_USER is not set"

# Prints the job's name. Changes it so that kilnctl does not take it for an option or a file.
job_name() {
    name=${SLURM_JOB_NAME:-}
    [ -n "$name" ] ||
        name=$(timeout 10s "$squeue" --noheader --jobs="$job" --format=%j </dev/null) || name=
    printf '%s\n' "$name" | sed -n '1 { s/^-/_/; s,/,_,g; p; }'
}

# Requests the plans in the traces of the user's earlier jobs of this name. Takes at most the time
# $prefetch.
prefetch() {
    name=$(job_name)
    home=$(getent passwd "$user" | cut -d : -f 6)
    [ -n "$name" ] && [ -n "$home" ] || return 0
    status=0
    said=$(runuser -u "$user" -- env -u XDG_CACHE_HOME "HOME=$home" "$kilnctl" trace prefetch \
        "$name" --budget "$prefetch" --timeout "$timeout" 2>&1 >/dev/null </dev/null) || status=$?
    case $status in
    0 | 5) ;; # 5: no job of this name has a trace
    *) say "'$kilnctl trace prefetch $name' failed for job $job of $user: $said" ;;
    esac
}
[ -z "$prefetch" ] || prefetch

# The parent directory must be writable only for root, so that no user can replace the directory of
# a job.
umask 022
mkdir -p -- "$directories" || give_up "cannot make '$directories'"
[ -n "$(find "$directories" -prune -type d -user "$(id -u)" ! -perm -020 ! -perm -002)" ] ||
    give_up "'$directories' must be a directory of root's that nobody else may write to"
directory=$directories/$job
(umask 077 && mkdir -- "$directory") || give_up "cannot make '$directory'"
chown -h -- "$user" "$directory" || give_up "cannot give '$directory' to $user"

set -- "$directory/overlay" --timeout "$timeout"
[ -z "$miopen" ] || set -- "$@" --miopen "$miopen"
[ -z "$db_id" ] || set -- "$@" --db-id "$db_id"
# The output file belongs to the user, so a shell of the user opens it.
# shellcheck disable=SC2016 # the inner shell expands it
said=$(runuser -u "$user" -- /bin/sh -c 'out=$1; shift; exec "$@" >"$out"' sh \
    "$directory/environment" "$kilnctl" miopen overlay "$@" 2>&1 </dev/null) ||
    give_up "'$kilnctl miopen overlay' failed for job $job of $user: $said"
exit 0
