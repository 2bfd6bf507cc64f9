"""Samples that agents publish of one broker at a time, and their encoding as Kafka records.

The operator must not import this package, because it loads pyarrow.
"""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("codec", "schema")
