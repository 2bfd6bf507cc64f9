"""``python -m e2e.chaos --seed 1 --minutes 30``: a run with random faults; exits with 1 if data was lost or the cluster did not recover."""

import argparse
import json
import os
import random
import sys
import time

from e2e.chaos.bench import BROKERS, Bench
from e2e.chaos.life import Life
from e2e.cluster.disks import parse_size
from e2e.cluster.layout import SPINDLE_IMAGE, Layout
from e2e.cluster.state import Options
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import install, namespace
from e2e.scenarios.lab import CLUSTER, Lab, LabError
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Killer, Machine
from e2e.scenarios.stand import Kind

# Racks of two, two and one broker: unequal racks reveal mistakes in rack rules first.
_OPTIONS = Options(nodes=BROKERS, zones=3, disks=2, disk_size=parse_size("2Gi"))
_TOPICS = (Topic("orders", partitions=12), Topic("notes", partitions=4, replicas=2, min_isr=1))


def live(testbed: Testbed, seed: int, minutes: float, faults: int) -> int:
    """One run. Returns the exit code."""
    kind = Kind(BROKERS, grace=120, size="2Gi")
    with namespace(testbed, f"chaos-{seed}", size=_OPTIONS.disk_size) as lab:
        lab.apply(kind.manifest())
        print(f"{BROKERS} brokers were ready after {lab.until_ready(600):.0f} s", flush=True)
        with load(lab, SPINDLE_IMAGE, *_TOPICS, rate=4, fill=32) as running:
            machine = Machine(testbed)
            bench = Bench(testbed, lab, machine, Killer(testbed), running, random.Random(seed))
            life = Life(bench)
            broken = ""
            try:
                _rounds(life, minutes, faults)
            except (LabError, TimeoutError) as error:
                broken = str(
                    error
                )  # a fault of the testbed itself; acknowledged records are verified all the same
                print(f"── the testbed failed in round {len(life.rounds)}: {broken[:2000]}", flush=True)
            finally:
                bench.end_faults()
                machine.heal_all()
            return _judge(life, lab, running, seed) or int(bool(broken))


def _rounds(life: Life, minutes: float, faults: int) -> None:
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end and life.faults < faults and not life.stuck:
        print(f"── round {len(life.rounds) + 1}, {life.faults} faults so far", flush=True)
        made = life.round()
        print(made.row(len(life.rounds)), flush=True)


def _judge(life: Life, lab: Lab, running: Load, seed: int) -> int:
    if life.stuck:
        print("── not recovered; its state:")
        print(json.dumps(lab.status().get("waiting", ()), indent=1))
        print(lab.situation())
    report = running.finish()
    unread = {name: line["unreadable"] for name, line in report.partitions.items() if line["unreadable"]}
    print(f"\n── run of seed {seed}: {life.faults} faults in {len(life.rounds)} rounds\n{life.table()}")
    print(f"── {report.summary()}" + (f"; unreadable: {unread}" if unread else ""))
    bad = bool(report.lost or unread or life.stuck)
    print(f"── {'FAILED' if bad else 'nothing lost, nothing stuck'}: {life.faults} faults on {CLUSTER}")
    return int(bad)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--faults", type=int, default=1000, help="end after this many")
    parser.add_argument("--keep", action="store_true", help="leave the testbed up for the next run")
    asked = parser.parse_args()
    os.environ.setdefault("SPINDLE_TESTBED", "chaos")
    testbed = Testbed(Layout.default())
    testbed.up(_OPTIONS)
    try:
        install(testbed)
        return live(testbed, asked.seed, asked.minutes, asked.faults)
    finally:
        if not asked.keep:
            testbed.down()


if __name__ == "__main__":
    sys.exit(main())
