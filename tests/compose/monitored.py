"""Which figures the dashboard, the alerts and the guide speak of."""

import json
import re

from tests.tidy.source import ROOT

NAME = re.compile(r"ringlog_[a-z_]+")
PARTS = ("_bucket", "_sum", "_count")
"""Of a histogram; it is told as one."""


def drawn():
    text = (ROOT / "deploy/grafana/dashboards/ringlog.json").read_text(encoding="utf-8")
    panels = json.loads(text)["panels"]
    return _named(target["expr"] for panel in panels for target in panel["targets"])


def alerted():
    text = (ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8")
    return _named(text.splitlines())


def alerts():
    text = (ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8")
    return set(re.findall(r"alert: (\w+)", text))


def documented():
    return set(re.findall(r"^\| `(ringlog_\w+)`", guide(), re.MULTILINE))


def guide():
    return (ROOT / "docs/guides/monitoring.md").read_text(encoding="utf-8")


def _named(texts):
    found = {name for text in texts for name in NAME.findall(text)}
    return {_whole(name) for name in found}


def _whole(name):
    return next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)
