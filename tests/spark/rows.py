"""Rows of the source, as a DataFrame."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.unit.rebalance_samples import records


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([records(rows)]))
