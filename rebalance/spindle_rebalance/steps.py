"""The run's log: one line per step with its counts and duration."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

QUIET: Final = dict.fromkeys(("kafka", "py4j", "urllib3", "kubernetes"), logging.ERROR)
log = logging.getLogger("spindle_rebalance")


@contextmanager
def step(cluster: str, what: str) -> Iterator[dict[str, Any]]:
    """Time a step, and log one line at its end with the counts from the dict; nothing if it fails.

    Args:
        cluster: ``namespace/cluster``.
        what: short name of the step.
    """
    counts: dict[str, Any] = {}
    began = time.perf_counter()
    yield counts
    seconds = round(time.perf_counter() - began, 3)
    said = ", ".join(f"{key} {value}" for key, value in counts.items())
    text = f"{cluster}: {what}, {seconds:.1f} s" + (f": {said}" if said else "")
    log.info(text, extra={"fields": {"cluster": cluster, "step": what, "seconds": seconds, **counts}})
