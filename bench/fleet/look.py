"""What one observation of a large Kafka costs the operator: CPU, time, bytes, memory.

.venv/bin/python -m bench.fleet.look [BROKERS ...] [--growing]
"""

import argparse
import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.fleet.nodes import resident_mib
from bench.fleet.shape import Shape, address
from spindle.model.view import KafkaView
from spindle_operator import ca
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_shared.freed_memory import give_back, use_one_heap

_PORT = 19091
_LOOKS = 4


@contextlib.contextmanager
def served(brokers: int, *, growing: bool) -> Iterator[Access]:
    """Brokers in a process of their own, and how the operator reaches them."""
    shape = Shape(brokers)
    hosts = {node: address(node) for node in shape.ids}
    with tempfile.TemporaryDirectory() as folder:
        authority = ca.make_ca("test")
        for host in hosts.values():
            # One for each, as brokers have: one certificate with the names of all would be held as often as there are connections.
            own = ca.issue(authority, "spindle-node", (host,))
            (Path(folder) / f"{host}.pem").write_bytes(own["tls.key"] + own["tls.crt"])
        made = ca.issue(authority, "spindle-operator", ())
        command = [sys.executable, "-m", "bench.fleet.brokers", f"--brokers={brokers}", f"--folder={folder}"]
        process = subprocess.Popen(
            [*command, f"--port={_PORT}", *(["--growing"] if growing else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the brokers did not start")
            yield Access(hosts, made["ca.crt"], made["tls.crt"], made["tls.key"])
        finally:
            process.kill()
            process.wait()


async def measure(access: Access) -> None:
    """Several looks in a row: the first connects, the last is what each pass costs. At last what a pass keeps with the view."""
    executor, view = KafkaExecutor("bench/fleet", 30.0, _PORT), KafkaView()
    for number in range(_LOOKS):
        cpu, began = time.process_time(), time.monotonic()
        view, _ = await executor.look(access)
        cpu, took = time.process_time() - cpu, time.monotonic() - began
        if view.error or view.partitions is None or not view.brokers:
            sys.stdout.write(f"  failed: {view.error}\n")
            return
        told = sum(broker.log_dirs is not None for broker in view.brokers.values())
        give_back()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        sys.stdout.write(
            f"  look {number + 1}: {cpu:.2f} s of CPU, {took:.1f} s, {len(view.partitions)} partitions, {told} brokers, {resident_mib(os.getpid())} MiB, peak {peak:.0f} MiB\n"
        )
        sys.stdout.flush()
    index = view.partition_index
    kept = index.by_key, index.assigned, index.unsettled, index.lagging
    give_back()
    sys.stdout.write(f"  with the {len(kept)} indexes that a pass keeps: {resident_mib(os.getpid())} MiB\n")
    await executor.shutdown()


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[10, 100])
    parser.add_argument("--growing", action="store_true", help="replicas grow between two looks")
    options = parser.parse_args()
    use_one_heap()  # as the operator does
    for brokers in options.brokers:
        sys.stdout.write(f"{brokers} brokers{', replicas grow' if options.growing else ''}\n")
        with served(brokers, growing=options.growing) as access:
            asyncio.run(measure(access))


if __name__ == "__main__":
    main()
