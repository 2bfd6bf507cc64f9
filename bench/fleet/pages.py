"""CPU of reading all pages of partitions after one broker of many was fenced: decoded as a whole, and only the topics that changed.

.venv/bin/python -m bench.fleet.pages [BROKERS ...]
"""

import argparse
import gc
import sys
import time
from typing import Any

from kafka.protocol.admin import DescribeTopicPartitionsResponse

from bench.fleet.brokers import Brokers
from bench.fleet.shape import Shape
from spindle.model.answers import read_partition
from spindle.model.view import Partition
from spindle_operator.partition_pages import read_page
from spindle_operator.raw_answers import RawAnswer

_FENCED = 1


def pages(shape: Shape, fenced: int | None) -> list[RawAnswer]:
    """All pages, with one broker in no ISR."""
    brokers, cursor, found = Brokers(shape, 0, growing=False), None, []
    while True:
        fields = brokers.page(cursor)
        for partition in (one for topic in fields["topics"] for one in topic.partitions):
            partition.isr_nodes = [node for node in partition.isr_nodes if node != fenced]
        page = DescribeTopicPartitionsResponse(throttle_time_ms=0, **fields)
        found.append(RawAnswer(DescribeTopicPartitionsResponse[0], bytes(page.encode(version=0))))
        cursor = fields["next_cursor"]
        if cursor is None:
            return found


def _read(topic: Any) -> tuple[Partition, ...]:
    return tuple(read_partition(topic.name, partition, {}) for partition in topic.partitions)


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[100, 1000])
    for brokers in parser.parse_args().brokers:
        shape = Shape(brokers)
        before, after = pages(shape, None), pages(shape, _FENCED)
        gc.collect()
        gc.freeze()
        started = time.process_time()
        layouts = [read_page(page, None, _read)[2] for page in before]
        first = time.process_time()
        whole = [[_read(topic) for topic in page.decode().topics] for page in after]
        decoded = time.process_time()
        partly = [read_page(page, layout, _read)[0] for page, layout in zip(after, layouts, strict=True)]
        ended = time.process_time()
        if whole != partly:
            raise RuntimeError("the pages were not read as the library reads them")
        sys.stdout.write(
            f"{brokers} brokers, {len(after)} pages, {shape.partitions} partitions: first time {first - started:.2f} s of CPU; "
            f"one broker fenced: {decoded - first:.2f} s as a whole, {ended - decoded:.2f} s where topics changed\n"
        )


if __name__ == "__main__":
    main()
