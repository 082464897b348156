"""Ask a history questions in SQL.

Make an archive with `ringlog audit export backup/`, then: python examples/spark_source.py backup/
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import ringlog


def main(archive: str) -> None:
    spark = SparkSession.builder.master("local[2]").appName("history").getOrCreate()
    ringlog.register_spark_source(spark)
    spark.read.format("ringlog").load(archive).createOrReplaceTempView("entries")
    spark.sql("SELECT kind, count(*) AS times FROM entries GROUP BY kind ORDER BY kind").show(50)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
