"""A Spark of its own, in a process that a test starts: as the rebalance job starts it, but for the place where its executors run.

Says ``<port of the driver> <sum by its executors>`` when it is ready, and ends with its input. Arguments: master, further settings.
"""

import sys

from spindle_rebalance import engine, session

master, *more = sys.argv[1:]
settings = dict(each.split("=", 1) for each in more)
spark = session.start("driver", master, {**getattr(engine, "SECURED", {}), **settings})
total = spark.sparkContext.parallelize(range(100), 2).map(lambda number: number + 1).sum()
print(spark.sparkContext.getConf().get("spark.driver.port"), total, flush=True)
sys.stdin.read()
spark.stop()
