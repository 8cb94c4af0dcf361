#!/bin/sh
# SPDX-License-Identifier: MIT
# Slurm's TaskProlog: prints the variables for the directory that prolog.sh made, as lines "export
# NAME=value". Slurm sets these variables for the task. Runs as the job's user.
set -u

config=${KILN_SLURM_CONFIG:-/etc/kiln/slurm.conf}
directories=/var/spool/kiln-jobs
# shellcheck source=/dev/null
[ ! -r "$config" ] || . "$config"

environment=$directories/${SLURM_JOB_ID:-none}/environment
[ ! -r "$environment" ] || cat -- "$environment"
exit 0
