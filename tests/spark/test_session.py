import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual


def test_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    def interpreter(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    found = spark.range(3).mapInArrow(interpreter, "python string")

    assertDataFrameEqual(found.distinct(), spark.createDataFrame([(sys.executable,)], "python string"))


def test_nothing_is_served_to_browsers(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
