"""Reduces a failing run as long as it still fails: fewer faults first, then a simpler cluster."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sim.life import Plot
from tests.sim.variety import Variety

Fails = Callable[[Plot], bool]


def shrunk(plot: Plot, fails: Fails, most: int = 60) -> Plot:
    """The smallest failing run found within this many runs."""
    left = most
    going = True
    while going and left > 0:
        going = False
        for candidate in _smaller(plot):
            left -= 1
            if left < 0:
                break
            if fails(candidate):
                plot, going = candidate, True
                break
    return plot


def _smaller(plot: Plot) -> Iterator[Plot]:
    faults = plot.faults
    if len(faults) > 2:
        half = len(faults) // 2
        yield replace(plot, faults=faults[:half])
        yield replace(plot, faults=faults[half:])
    for index in range(len(faults)):
        if len(faults) > 1:
            yield replace(plot, faults=faults[:index] + faults[index + 1 :])
    for variety in _simpler(plot.variety):
        yield replace(plot, variety=variety)


def _simpler(v: Variety) -> Iterator[Variety]:
    if v.standby:
        yield replace(v, standby=False)
    if v.skews:
        yield replace(v, skews=())
    if v.page != 500:
        yield replace(v, page=500)
    if v.slow_projection:
        yield replace(v, slow_projection=False)
    if len(v.topics) > 1:
        for index in range(len(v.topics)):
            yield replace(v, topics=v.topics[:index] + v.topics[index + 1 :])
    for index, topic in enumerate(v.topics):
        if topic.partitions > 1:
            yield replace(v, topics=(*v.topics[:index], replace(topic, partitions=1), *v.topics[index + 1 :]))
    if v.controllers > 1:
        yield replace(v, controllers=1)
    if v.disks > 2:
        yield replace(v, disks=v.disks - 1)
