"""The list of all metrics, and the operator's metrics of a KafkaCluster as a pure function of one pass."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("cluster", "consumer_lag", "table")
