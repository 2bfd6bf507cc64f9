"""Spark as the job uses it: in this process's own machine, or with executors on Kubernetes."""

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
_BATCH: Final = 65_536  # rows of a batch between the JVM and Python
_BYTES: Final = 16 * 1024 * 1024  # of such a batch: a row may be a whole record
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
_TASKS: Final = 3  # for each core
_ALWAYS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BYTES),
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # an hour is a name
    # Options of a read appear in plans and error messages.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|key",
}


def start(name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session; the process's own, if it has one already.

    Args:
        name: of the application.
        master: ``local[N]``, or ``k8s://…`` in client mode.
        conf: Spark's settings, which go before what is set here.
    """
    # Workers otherwise start whichever Python is first on the PATH; executors run in the image that this process runs in.
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
        # Spark's 200 are for hundreds of cores: on two of them they cost a minute of starting tasks that have nothing to do.
        # Executors may not be there yet.
        asked = int(settings.get("spark.executor.instances", "0")) * int(
            settings.get("spark.executor.cores", "1")
        )
        spark.conf.set(_SHUFFLE, str(_TASKS * max(asked, spark.sparkContext.defaultParallelism)))
    return spark
