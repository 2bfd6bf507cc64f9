"""Forecasts when a disk will be full; used by the agent, the command line and the rebalance job.

`history` holds the samples, `season` the weekly pattern, `trend` the current rate, `forecast` the result.
"""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("forecast", "history")
