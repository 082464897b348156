"""Dashboard, alerts and guide speak of the same figures; tests/compose asks the processes."""

import json

from tests.compose.monitored import alerted, alerts, documented, drawn, guide
from tests.tidy.source import ROOT


def test_what_is_drawn_or_alerted_is_explained():
    assert drawn() | alerted() <= documented()


def test_every_alert_is_explained():
    assert alerts()
    assert {name for name in alerts() if f"`{name}`" in guide()} == alerts()


def test_panels_have_a_place_and_a_source_of_their_own():
    text = (ROOT / "deploy/grafana/dashboards/ringlog.json").read_text(encoding="utf-8")
    panels = json.loads(text)["panels"]
    provisioned = (ROOT / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text(
        encoding="utf-8"
    )

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {"prometheus"}
    assert "uid: prometheus\n" in provisioned
