"""Parts of PromQL expressions. Names and labels come from the list of metrics, so that none can be misspelt.

An exporter's series also have labels of their target (pod, instance, …), and for a moment two operators may export the same cluster. So every series
is aggregated by its own labels before it is joined.
"""

from spindle.metrics import table
from spindle.metrics.table import BROKER, CLUSTER, DISK, Metric


def labels(names: tuple[str, ...]) -> str:
    """A list of labels for ``by`` and ``on``."""
    return f"({', '.join(names)})"


def of(metric: Metric, by: tuple[str, ...], selector: str = "") -> str:
    """The series of a gauge without the labels of their target.

    Args:
        metric: a gauge.
        by: the labels to keep.
        selector: matchers without braces.
    """
    if unknown := set(by) - set(metric.labels):
        raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
    return f"max by {labels(by)} ({metric.name}{f'{{{selector}}}' if selector else ''})"


def placed(expression: str) -> str:
    """A disk's series with its rack, node and device; the value stays."""
    info = of(table.DISK_INFO, (*DISK, "rack", "node", "device"))
    return f"{expression}\n* on {labels(DISK)} group_left (rack, node, device)\n{info}"


def unless_paused(expression: str) -> str:
    """Without clusters that are paused: Spindle changes nothing there, as somebody asked for that."""
    return f"{expression}\nunless on {labels(CLUSTER)} {of(table.PAUSED, CLUSTER)} == 1"


def unless_maintained(expression: str) -> str:
    """Without brokers that somebody has stopped for maintenance."""
    return f"{expression}\nunless on {labels(BROKER)} {of(table.MAINTENANCE, BROKER)} == 1"
