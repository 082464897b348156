#!/usr/bin/env bash
# Remove what checks, tests and builds leave behind.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist htmlcov ./*.egg-info
find . -path ./.venv -prune -o -path ./.state -prune -o -name __pycache__ -type d -print0 \
    | xargs -0 --no-run-if-empty rm -rf
