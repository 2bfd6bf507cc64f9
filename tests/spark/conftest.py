from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from e2e.cluster.debian import ensure_programs
from spindle_rebalance import session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests: it takes longer to start than most of them to run."""
    ensure_programs("java")
    found = session.start(
        "tests",
        "local[2]",
        {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.driver.memory": "1g"},
    )
    yield found
    found.stop()
