#!/usr/bin/env bash
# Test docker-compose.yml: on the Docker engine that answers, else in the lab beside the project, else
# say what is missing. That there is neither is no failure: not every machine can run containers. A
# lab that is there and does not start is one.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LAB=${DOCKER_LAB:-../shared/docker-lab}
readonly BASE=python:3.11-slim-bookworm
readonly LAB_TIMEOUT_S=300
readonly OTHERS=(postgres:17 apache/kafka:4.1.0 prom/prometheus:v2.53.3)

BUILD_LOG=$(mktemp)
readonly BUILD_LOG
trap 'rm -f "$BUILD_LOG"' EXIT

say() { echo "test-compose: $*"; }

engine_answers() { docker version >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; }

# Our image needs one of the lab's images only, so it is built while the lab makes the others.
start_lab() {
    local exports
    say "no Docker engine answers; starting the one in $LAB"
    exports=$(timeout "$LAB_TIMEOUT_S" "$LAB/up" "$BASE") || {
        say "the lab does not start on this machine; its last words are above"
        "$LAB/down" || true
        exit 1
    }
    eval "$exports"
    # Its daemon, and with it whatever a broken test may have left. Images stay for the next time.
    trap 'rm -f "$BUILD_LOG"; "$LAB/down"' EXIT
    docker compose build >"$BUILD_LOG" 2>&1 &
    timeout "$LAB_TIMEOUT_S" "$LAB/up" "${OTHERS[@]}" >/dev/null || {
        say "the lab could not make its images; its last words are above"
        return 1
    }
    wait $! || {
        tail -30 "$BUILD_LOG"
        say "the image cannot be built"
        return 1
    }
}

if engine_answers; then
    say "using the Docker engine that answers"
elif [ -x "$LAB/up" ]; then
    start_lab
else
    say "skipped: no Docker engine with Compose v2 answers, and there is no $LAB."
    say "Install Docker Engine 24 or later with the Compose plugin, start it, and run this again."
    exit 0
fi

RINGLOG_TEST_COMPOSE=1 .venv/bin/pytest -q -x -p no:cacheprovider "$@" tests/compose
