"""The job's Spark session: on this machine, or with executors on Kubernetes."""

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
_BATCH: Final = 65_536  # rows of a batch between the JVM and Python
_BYTES: Final = 16 * 1024 * 1024  # bytes of such a batch: a row may be a whole record
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
_TASKS: Final = 3  # tasks per core
_ALWAYS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BYTES),
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # the hour is a string
    # Options of a read would appear in plans and error messages.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|key",
}


def start(name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session, or return the existing one of this process.

    Args:
        name: name of the application.
        master: ``local[N]``, or ``k8s://…`` in client mode.
        conf: Spark settings, which override those set here.
    """
    # Otherwise workers start the first Python on the PATH; executors use the same image as this process.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {"spark.pyspark.python": sys.executable, **_ALWAYS, **(conf or {})}
    if master.startswith("local"):
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        settings.setdefault("spark.driver.host", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if _SHUFFLE not in settings:
        # Spark's default of 200 suits hundreds of cores; on two cores it costs a minute of starting empty tasks.
        # Executors may not have started yet.
        asked = int(settings.get("spark.executor.instances", "0")) * int(
            settings.get("spark.executor.cores", "1")
        )
        spark.conf.set(_SHUFFLE, str(_TASKS * max(asked, spark.sparkContext.defaultParallelism)))
    return spark
