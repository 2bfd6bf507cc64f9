"""CPU time of one ``plan()`` on small clusters of the model, settled and in trouble.

.venv/bin/python -m bench.passes
"""

import statistics
import sys
import time
from contextlib import suppress

from spindle.reconcile.plan import plan
from tests.model.checked import Checked
from tests.model.driven import all_in
from tests.model.kafka import path_of
from tests.model.store import ConflictError

_BROKERS = (3, 6, 9)
_PASSES = 40
_PARTITIONS = 30
_COPIES = 3


def _settled(brokers: int) -> Checked:
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = Checked.of("abcabcabc"[:brokers], brokerPools=[pool])
    world.settle(80)
    for index in range(_PARTITIONS):
        replicas = tuple((index + step) % brokers for step in range(_COPIES))
        world.kafkas.create("t", index, replicas, all_in(path_of(f"disk{index % 2}")))
        world.kafkas.sizes["t"] = 10
        world.factors["t", index] = _COPIES
    world.settle()
    return world


def _times(world: Checked) -> list[float]:
    """Milliseconds of CPU of each pass."""
    found = []
    for _ in range(_PASSES):
        snapshot = world.snapshot()
        began = time.process_time()
        plan(snapshot, world.now)
        found.append(1000 * (time.process_time() - began))
        with suppress(ConflictError, RuntimeError):  # a guard did not hold: the next pass looks again
            world.reconcile()
        world.breathe()
    return found


def main() -> None:
    """Print median and mean for each size; the mean has the planner's search in it where a disk is filled."""
    for brokers in _BROKERS:
        world = _settled(brokers)
        troubled = world.fork()
        troubled.disk(0, "disk0").state = "dead"
        for name, each in (("settled", world), ("one disk dead", troubled)):
            times = _times(each)
            median, mean = statistics.median(times), statistics.fmean(times)
            sys.stdout.write(
                f"{brokers} brokers, {name}: median {median:.1f} ms, mean {mean:.1f} ms of CPU a pass\n"
            )


if __name__ == "__main__":
    main()
