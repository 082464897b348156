#!/usr/bin/env bash
# Pin requirements/*.in with hashes, for every Python and processor that pyproject.toml names.
# Pins that still fit are kept; arguments go to the resolver, such as --upgrade.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly UV_VERSION=0.13.7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"

pin() {
    local name=$1
    shift
    "$work/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" "$@" \
        --output-file "requirements/$name.txt" "requirements/$name.in"
}

pin build "$@"
pin runtime "$@"
# What is tested is what runs.
pin dev --constraints requirements/build.txt --constraints requirements/runtime.txt "$@"
