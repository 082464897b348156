"""A Spark master that cannot be talked to, for whatever reason, is named and no more than that."""

from __future__ import annotations

import pytest

from movement.masters import addresses
from movement.spark import Spark, SparkSettings
from sequences.ports import WorkError
from services.driver.attempt import make_sure_of


@pytest.mark.parametrize(
    "master",
    [
        "spark://127.0.0.1:99999",
        "spark://no..name:7077",
        f"spark://{'x' * 64}.example:7077",
        "spark://127.0.0.1:1",
        "spark://127.0.0.1:99999,127.0.0.1:1",
    ],
)
async def test_an_address_that_leads_nowhere_is_told_at_the_sequence(master):
    """Whatever is no `WorkError` would end the driver, and every other sequence with it."""
    spark = Spark(SparkSettings(master=master))

    with pytest.raises(WorkError, match=r"does not answer \(.+\): start its master") as caught:
        await make_sure_of(spark)

    assert master in str(caught.value)
    await spark.close()


def test_a_port_is_a_number():
    assert addresses("spark://a:1²,b:7077,c") == [("b", 7077)]
