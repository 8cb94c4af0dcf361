#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm's TaskProlog: prints the variables for the directory that prolog.sh made, as lines "export
# NAME=value". Slurm sets these variables for the task. If prolog.sh prefetches, the task also
# writes a trace, for the next job of this name. Runs as the job's user.
set -u

config=${KILN_SLURM_CONFIG:-/etc/kiln/slurm.conf}
directories=/var/spool/kiln-jobs
prefetch=
# shellcheck source=/dev/null
[ ! -r "$config" ] || . "$config"

environment=$directories/${SLURM_JOB_ID:-none}/environment
[ ! -r "$environment" ] || cat -- "$environment"
[ -z "$prefetch" ] || [ -n "${KILN_TRACE:-}" ] || echo 'export KILN_TRACE=on'
exit 0
