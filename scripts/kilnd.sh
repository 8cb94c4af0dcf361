#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Functions that start and stop a private kilnd, for scripts and tests that source this file.
#
#   start_kilnd BIN LOG SOCKET ARGUMENT...   returns once kilnd answers; appends its messages to LOG
#   stop_kilnd                               ends kilnd, and returns its exit status
#
# Both wait at most a minute. If this is not enough, they print what they waited for.

kilnd_pid=

start_kilnd() {
    local bin=$1 log=$2 socket=$3
    shift 3
    "$bin/kilnd" --socket "$socket" "$@" >>"$log" 2>&1 &
    kilnd_pid=$!
    for _ in {1..1200}; do
        ! "$bin/kilnctl" --socket "$socket" ping >/dev/null 2>&1 || return 0
        kill -0 "$kilnd_pid" 2>/dev/null || break
        sleep 0.05
    done
    echo "${0##*/}: kilnd ended, or did not answer within 60 s; its log:" >&2
    cat "$log" >&2
    return 1
}

stop_kilnd() {
    [[ -n $kilnd_pid ]] || return 0
    local pid=$kilnd_pid
    kilnd_pid=
    kill "$pid" 2>/dev/null || true
    for _ in {1..600}; do
        kill -0 "$pid" 2>/dev/null || {
            wait "$pid"
            return
        }
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    echo "${0##*/}: waited 60 s for kilnd ($pid) to end, and killed it" >&2
    return 1
}
