"""How many steps a rolling restart of all brokers takes, counted with the functions of the operator.

.venv/bin/python -m bench.fleet.rolls [BROKERS ...]
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from bench.fleet.shape import Shape
from spindle.model.restart_safety import RestartSafety
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.rollout.rollout_order import RolloutMember, at_once, next_to_restart

_MIN_ISR = 2
_RACKS = 3


@dataclass(frozen=True)
class RollStep:
    """Brokers that are down together.

    Attributes:
        brokers: which ones.
        most: how many might be, by `at_once`.
        leads: partitions whose leadership moves to other brokers before the step.
    """

    brokers: tuple[int, ...]
    most: int
    leads: int


def roll(shape: Shape, asked: int | None = None) -> Iterator[RollStep]:
    """The steps of a roll in which all brokers come back, one step after the other.

    Args:
        shape: the brokers and their partitions.
        asked: ``spec.rolling.maxUnavailable``; None if it is not set.
    """
    most = at_once(shape.brokers, asked)
    rolling, leads = RestartSafety(_view(shape)), _leads(shape)
    left = [RolloutMember(node_id=node, rack=_rack(node)) for node in shape.ids]

    def ask(node: int, others: frozenset[int]) -> RestartVerdict:
        return rolling.may_go_down(node, others - {node})

    while left:
        gone = next_to_restart(left, [], most, ask).go
        if not gone:
            raise RuntimeError(f"the roll stops with {len(left)} brokers left")
        yield RollStep(gone, most, sum(leads[node] for node in gone))
        left = [member for member in left if member.node_id not in gone]


def _rack(node: int) -> str:
    """As `Shape.replicas` counts them."""
    return f"rack{node % _RACKS}"


def _leads(shape: Shape) -> dict[int, int]:
    found = dict.fromkeys(shape.ids, 0)
    for topic in range(shape.topics):
        for index in range(shape.partitions_of(topic)):
            found[shape.replicas(topic, index)[0]] += 1
    return found


def _view(shape: Shape) -> KafkaView:
    """All brokers are up and all replicas in sync."""
    partitions, held = [], dict[int, dict[tuple[str, int], int]]((node, {}) for node in shape.ids)
    for topic in range(shape.topics):
        name = shape.name(topic)
        for index in range(shape.partitions_of(topic)):
            at = tuple(shape.replicas(topic, index))
            partitions.append(Partition(name, index, at[0], at, at))
            for node in at:
                held[node][name, index] = 1
    return KafkaView(
        brokers={
            node: Broker(node, _rack(node), False, (LogDir("/d", replicas=replicas),))
            for node, replicas in held.items()
        },
        partitions=tuple(partitions),
        min_isr={shape.name(topic): _MIN_ISR for topic in range(shape.topics)},
    )


def main() -> None:
    """Count for each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="*", default=[10, 60, 100])
    parser.add_argument("--max-unavailable", type=int, help="spec.rolling.maxUnavailable")
    options = parser.parse_args()
    for brokers in options.brokers:
        steps = list(roll(Shape(brokers), options.max_unavailable))
        sizes, leads = [len(step.brokers) for step in steps], max(step.leads for step in steps)
        sys.stdout.write(
            f"{brokers} brokers, {Shape(brokers).partitions} partitions: {len(steps)} steps of {min(sizes)} to {max(sizes)} brokers "
            f"(at most {steps[0].most}), up to {leads} leaders move before a step\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
