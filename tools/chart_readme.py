"""The chart's README: the introduction in this file, and a table of all values with the comments of ``values.yaml``."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

CHART: Final = Path(__file__).resolve().parent.parent / "charts/spindle"

_HEAD: Final = """\
<!-- Generated from values.yaml by `make generate`. Change the comments there, not this file. -->
# Helm chart of Spindle

Spindle is an operator for Apache Kafka on many disks and many racks. This chart installs the operator, an agent on each node, and the
CustomResourceDefinitions. It needs Kubernetes 1.30 or later.

    helm install spindle <chart> --namespace kafka --create-namespace --set image.registry=registry.example/team

`<chart>` is the archive of a release, `spindle-<version>.tgz`, or this folder. The registry needs `spindle:<version>`, `apache/kafka:<version of
Kafka>` and, for the rebalance job, `spindle-rebalance:<version>` below that path. CustomResourceDefinitions, KafkaClusters and the agents' namespace
stay when the chart is uninstalled.

## Values

An unknown key is an error. A default of more than one line is in `values.yaml`.

"""


@dataclass(frozen=True)
class Value:
    """One key of the values.

    Attributes:
        path: its keys, joined by dots.
        default: its default as JSON; None for an object whose keys have lines of their own.
        comment: the comment above it as one line; empty if there is none.
    """

    path: str
    default: str | None
    comment: str


def values(text: str) -> list[Value]:
    """All keys of a file of values, in its order.

    Args:
        text: its YAML.
    """
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(top, yaml.MappingNode):
        raise TypeError("the values are not an object")
    return list(_values(top, "", text.splitlines()))


def readme(text: str) -> str:
    """The README for a file of values."""
    lines = ["| value | default | meaning |", "| --- | --- | --- |"]
    for value in values(text):
        default = "" if value.default is None else f"`{value.default}`"
        lines.append(f"| `{value.path}` | {default} | {_cell(value.comment)} |")
    return _HEAD + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text as it stands in a cell: no character of it is Markdown or HTML."""
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def _values(node: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, child in node.value:
        path = f"{prefix}{key.value}"
        comment = _comment(lines, key.start_mark.line)
        block = isinstance(child, yaml.MappingNode) and not child.flow_style
        if block:
            if comment:
                yield Value(path, None, comment)
            yield from _values(child, f"{path}.", lines)
        else:
            yield Value(path, _default(child), comment)


def _default(node: yaml.Node) -> str:
    plain = yaml.safe_load(yaml.serialize(node, Dumper=yaml.SafeDumper))
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:
        return "[…]"
    return json.dumps(plain, ensure_ascii=False)


def _comment(lines: list[str], line: int) -> str:
    """The comment lines directly above a line."""
    first = line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(each.lstrip().removeprefix("#").strip() for each in lines[first:line])
