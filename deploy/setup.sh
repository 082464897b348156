#!/usr/bin/env bash
# Prepare a machine for ringlog, one part per call:
#   setup.sh requirements | project | java | kafka | browser | classes
# Each part leaves a stamp in .venv, by which make knows that it is done.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=.venv
readonly JAVA_MIN=17

die() {
    echo "setup: $*" >&2
    exit 1
}

can_apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# Install the first of the given packages that this system knows; quiet unless it fails.
apt_install_first() {
    can_apt || return 1
    local package output
    for package in "$@"; do
        if ! apt-cache show "$package" >/dev/null 2>&1; then
            apt-get update -qq >/dev/null 2>&1 || true
            apt-cache show "$package" >/dev/null 2>&1 || continue
        fi
        echo "setup: installing $package"
        if output=$(DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            "$package" 2>&1); then
            return 0
        fi
        # The lists may be older than the archive.
        apt-get update -qq >/dev/null 2>&1 || true
        if output=$(DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            "$package" 2>&1); then
            return 0
        fi
        echo "$output" >&2
    done
    return 1
}

# The locks in requirements/ are made for these.
is_supported_python() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if is_supported_python "$candidate"; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

has_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

make_venv() {
    local python
    if [ -x "$VENV/bin/python" ] && is_supported_python "$VENV/bin/python" \
        && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        return 0
    fi
    python=$(find_python) || { apt_install_first python3.13 python3.12 python3.11 >&2 && python=$(find_python); } \
        || die "no Python 3.11, 3.12 or 3.13 found; install one with its venv module, or name it: PYTHON=/path make setup"
    has_venv "$python" \
        || apt_install_first "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" \
        || true
    has_venv "$python" \
        || die "$python has no venv module; install it (on Debian and Ubuntu: the package python3-venv)"
    "$python" -m venv --clear "$VENV"
}

setup_requirements() {
    make_venv
    echo "setup: installing pinned requirements (a minute or two the first time)"
    # The lock is complete, hence no dependencies: looking for them, pip takes `name[extra]` for
    # something that is not pinned, and fails as soon as anybody releases a newer one.
    local pip=("$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes)
    # What builds source distributions comes from the lock as well, hence no isolated builds.
    "${pip[@]}" -r requirements/build.txt
    "${pip[@]}" --no-build-isolation -r requirements/dev.txt
    "$VENV/bin/python" -m pip check >/dev/null || die "the pinned requirements do not fit together: run \`make lock\`"
    touch "$VENV/.requirements"
}

setup_project() {
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-deps --no-build-isolation --editable .
    touch "$VENV/.project"
}

# The major version of the Java that Spark would start, or 0.
java_version() {
    local java="${JAVA_HOME:+$JAVA_HOME/bin/}java" version
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    echo "${version:-0}"
}

setup_java() {
    [ "$(java_version)" -ge "$JAVA_MIN" ] \
        || apt_install_first openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless \
        || true
    [ "$(java_version)" -ge "$JAVA_MIN" ] \
        || die "Spark needs a Java runtime of version $JAVA_MIN or later; install one (on Debian and Ubuntu: openjdk-17-jre-headless) or point JAVA_HOME at it"
    touch "$VENV/.java"
}

# Once a machine, into a cache: no test and no demo waits for it then.
setup_kafka() {
    echo "setup: fetching Apache Kafka (the first time on a machine)"
    "$VENV/bin/python" -m services.local.kafka_jars
    touch "$VENV/.kafka"
}

has_chromium() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

setup_browser() {
    has_chromium >/dev/null \
        || apt_install_first chromium chromium-browser \
        || "$VENV/bin/playwright" install chromium \
        || die "the browser tests need Chromium; install it (on Debian: the package chromium)"
    touch "$VENV/.browser"
}

# Half a minute once, and five seconds less for each of the many Sparks that tests start.
setup_classes() {
    echo "setup: keeping Spark's classes for quick starts"
    "$VENV/bin/python" -m tests.fixtures.spark_classes >/dev/null 2>&1 \
        || echo "setup: they could not be kept; the tests take some minutes longer"
    touch "$VENV/.classes"
}

case "${1:-}" in
    requirements | project | java | kafka | browser | classes) "setup_$1" ;;
    *) die "say which part: requirements, project, java, kafka, browser or classes" ;;
esac
