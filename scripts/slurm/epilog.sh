#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm's Epilog: logs what the job used of the kernels that prolog.sh prefetched, imports what
# MIOpen found and compiled in the job's directory, logs for which problems MIOpen searched, then
# removes the directory. If the import or the removal fails or takes too long, keeps the directory
# as failed-JOB; only the newest few of each user are kept. Runs as root on each node, but accesses
# the job's data as the job's user. Always exits with 0, so that Slurm does not drain the node.
# docs/tuning.md lists the settings.
set -u
# slurmd sets no PATH. sh finds programs without it, but timeout and runuser do not find all.
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH

config=${KILN_SLURM_CONFIG:-/etc/kiln/slurm.conf}
directories=/var/spool/kiln-jobs
kilnctl=kilnctl
timeout=60s
failed_max=4
prefetch=
squeue=squeue
# shellcheck source=/dev/null
[ ! -r "$config" ] || . "$config"

say() {
    printf '%s\n' "kiln epilog: $*" >&2
    logger -t kiln "epilog: $*" 2>/dev/null || :
}

job=${SLURM_JOB_ID:-}
user=${SLURM_JOB_USER:-}
case $job in
'' | 0* | *[!0-9]*)
    say "SLURM_JOB_ID is '$job', no number"
    exit 0
    ;;
esac
directory=$directories/$job
[ -n "$user" ] || exit 0

# The seconds of $timeout that are left, but at least 1, so that a late step can still do a little.
case ${timeout%[ms]} in
'' | 0* | *[!0-9]*)
    say "the setting timeout is '$timeout', neither seconds (90s) nor minutes (2m): using 60s"
    timeout=60s
    ;;
esac
case $timeout in
*m) seconds=$((${timeout%m} * 60)) ;;
*) seconds=${timeout%s} ;;
esac
deadline=$(($(date +%s) + seconds))
left() {
    left=$((deadline - $(date +%s)))
    [ "$left" -ge 1 ] || left=1
    echo "$left"
}

# Runs a program as the user. All these programs together may take at most $timeout, because the
# job's files must not delay the node without limit.
as_user() {
    timeout --kill-after=5s "$(left)s" runuser -u "$user" -- "$@" </dev/null
}

# Prints the job's name. Changes it so that kilnctl does not take it for an option or a file.
job_name() {
    name=${SLURM_JOB_NAME:-}
    [ -n "$name" ] ||
        name=$(timeout 10s "$squeue" --noheader --jobs="$job" --format=%j </dev/null) || name=
    printf '%s\n' "$name" | sed -n '1 { s/^-/_/; s,/,_,g; p; }'
}

# Logs how many of the prefetched kernels the job used, and how many other kernels it needed. Logs
# nothing if the job wrote no trace.
report() {
    name=$(job_name)
    home=$(getent passwd "$user" | cut -d : -f 6)
    [ -n "$name" ] && [ -n "$home" ] || return 0
    numbers=$(as_user env -u XDG_CACHE_HOME "HOME=$home" "$kilnctl" trace prefetch "$name" \
        --report 2>/dev/null) || return 0
    say "job $job ($name) of $user, kernels: $(echo "$numbers" |
        awk '{ $1 = $1; printf "%s%s", (NR > 1 ? ", " : ""), $0 }')"
}
[ -z "$prefetch" ] || report
[ -d "$directory" ] || exit 0

# Removes a directory as the user: if root removed it, links in it could make root remove other
# files. First restores the user's permissions, which the job may have removed.
remove() {
    as_user find "$1" -type d ! -perm -u=rwx -exec chmod u+rwx '{}' ';' || :
    as_user find "$1" -mindepth 1 -delete || :
    rmdir -- "$1"
}

# Keeps the directory of a failed job under another name, because Slurm reuses job numbers, for
# example for a requeued job.
keep() {
    kept=$directories/failed-$job
    count=1
    while [ -e "$kept" ]; do
        count=$((count + 1))
        kept=$directories/failed-$job-$count
    done
    mv -- "$directory" "$kept" || return 1
    say "'$kept' has it: as $user, '$kilnctl miopen harvest $kept/overlay' tries again, then" \
        "remove" \
        "it; the newest $failed_max of a user are kept"
}

remove_old() {
    find "$directories" -mindepth 1 -maxdepth 1 -name 'failed-*' -user "$user" -printf '%C@ %p\n' |
        sort -rn | tail -n "+$((failed_max + 1))" | cut -d ' ' -f 2- |
        while IFS= read -r old; do
            remove "$old" || say "cannot remove '$old'"
        done
}

# Logs for which problems MIOpen searched, according to $said, the output of 'miopen harvest'.
log_searches() {
    searched=$(printf '%s\n' "$said" | awk '
        /^MIOpen searched for / { found = 1; printf "%s", $0; next }
        !/^    / { found = 0 }
        found { $1 = $1; printf "%s%s", (count++ ? ", " : " "), $0 }')
    [ -z "$searched" ] || say "job $job of $user: $searched"
}

said=
if [ -s "$directory/environment" ] &&
    ! said=$(as_user "$kilnctl" miopen harvest "$directory/overlay" --timeout "$(left)s" 2>&1); then
    say "'$kilnctl miopen harvest' could not take everything of job $job of $user: $said"
else
    log_searches
    ! remove "$directory" || exit 0
    say "cannot remove '$directory'"
fi
keep || say "cannot rename '$directory': remove it, or job $job gets no overlay if it comes again"
remove_old
exit 0
