"""`ringlog status` says why sequences would not come to their end."""

from ringlog.commands.status import warnings

NODE = {"name": "node-1", "role": "node", "state": "ready"}
DRIVER = {"name": "driver-1", "role": "driver", "state": "ready"}


def test_all_is_well():
    assert warnings([NODE, DRIVER]) == []
    assert warnings([]) == []


def test_a_driver_that_is_missing_or_down_is_named():
    assert "No driver" in warnings([NODE])[0]
    assert "driver-1 is down" in warnings([NODE, {**DRIVER, "state": "down"}])[0]


def test_java_is_missed_before_rows_have_to_move(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    assert "Java" in warnings([NODE, DRIVER])[0]
