"""What a movement that does not come further says of itself."""

from __future__ import annotations

from movement.asking import Tasks
from services.cms.progress.movements import movement_view
from services.driver.progress import Meter


def test_jobs_that_nobody_is_there_to_run_are_told_of():
    meter = Meter(lambda: 100.0)
    assert meter.moved.detail == ""
    assert movement_view(meter.moved, 1.0).detail is None

    meter.see(Tasks(0, 4, executors=0))

    assert "Spark has no executor" in meter.moved.detail
    assert movement_view(meter.moved, 1.0).detail == meter.moved.detail
    for well in (Tasks(0, 4, executors=1), Tasks(0, 0)):
        meter.see(well)
        assert meter.moved.detail == ""
