"""The reference pages: a field table for each kind, and the configuration keys that Spindle owns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spindle.api.common import BOUNDS, HINT, RULES
from spindle.api.crd import CustomResource, schema_of
from spindle.api.names import API_VERSION
from spindle.api.owned import OWNED

_HEAD = "<!-- Generated from core/spindle/api by `make generate`. Change the models, not this file. -->\n\n"
_SAID_ELSEWHERE = "is owned by Spindle"


@dataclass(frozen=True)
class Row:
    """One row of a field table."""

    path: str
    schema: Mapping[str, Any]
    required: bool
    default: Any


def kind_page(kind: CustomResource) -> str:
    """The reference page of one kind."""
    schema = schema_of(kind.model)
    parts = [
        f"{_HEAD}# {kind.name}\n",
        f"{schema['description']}\n",
        f"`{API_VERSION}`, namespaced, `kubectl get {kind.short}` for short.\n",
        _columns(kind),
    ]
    for part, title in (("spec", "Spec: set by you"), ("status", "Status: reported by Spindle")):
        root = schema["properties"][part]
        parts += [
            f"## {title}\n",
            f"{root['description']}\n",
            _table(list(_rows(root, "")), fixed=part == "spec"),
        ]
    refusals = list(_refusals(schema, ""))
    parts += [
        "## What the API server rejects\n",
        "The API server checks each of these rules before it stores the object.\n",
    ]
    parts.append("\n".join(f"- `{path}`: {message}" for path, message in refusals) + "\n")
    return "\n".join(parts)


def owned_page() -> str:
    """The page on Kafka configuration keys that users cannot set."""
    lines = [
        f"{_HEAD}# Configuration keys that Spindle owns\n",
        "You can set every other key of Kafka's broker configuration under `spec.config` of a KafkaCluster for all",
        "brokers, or under `spec.brokerPools[].config` for one pool. The following keys are rejected, because Spindle sets them:\n",
        "| About | Keys | What to do instead |",
        "| --- | --- | --- |",
    ]
    for group in OWNED:
        keys = ", ".join(
            [*(f"`{key}`" for key in group.keys), *(f"`{prefix}*`" for prefix in group.prefixes)]
        )
        but = f" except {', '.join(f'`{key}`' for key in group.free)}" if group.free else ""
        lines.append(f"| {group.subject} | {keys}{but} | {group.way_out} |")
    return "\n".join(lines) + "\n"


def index_page(kinds: Sequence[CustomResource]) -> str:
    """The index page."""
    lines = [f"{_HEAD}# Reference\n"]
    lines += [
        f"- [{kind.name}]({kind.name.lower()}.md): {schema_of(kind.model)['description']}" for kind in kinds
    ]
    lines.append("- [Configuration keys that Spindle owns](owned-config.md)")
    lines.append(
        "- [Disk states](disk-life.md): the states of a disk, their transitions, and the verdicts on disks"
    )
    lines.append("- [Metrics](metrics.md) of the operator and the agents")
    lines.append("- [Alerts](alerts.md): what each means, what Spindle does, and what you do")
    return "\n".join(lines) + "\n"


def _columns(kind: CustomResource) -> str:
    lines = ["| Column | Content |", "| --- | --- |"]
    lines += [
        f"| {column.name.upper()} | {_cell(column.description)}{' (with `-o wide`)' if column.wide else ''} |"
        for column in kind.columns
        if column.description
    ]
    return "\n".join(lines) + "\n"


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[Row]:
    needed = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        yield Row(f"{prefix}{name}", child, name in needed, child.get("default", ...))
        yield from _rows(child, f"{prefix}{name}.")
        items = child.get("items", {})
        yield from _rows(items, f"{prefix}{name}[].")


def _table(rows: list[Row], *, fixed: bool) -> str:
    if fixed:
        lines = ["| Field | Type | Default | Bounds | Description |", "| --- | --- | --- | --- | --- |"]
        lines += [
            f"| `{row.path}` | {_type(row.schema)} | {_default(row)} | {_bounds(row.schema)} | {_cell(row.schema.get('description', ''))} |"
            for row in rows
        ]
    else:
        lines = ["| Field | Type | Description |", "| --- | --- | --- |"]
        lines += [
            f"| `{row.path}` | {_type(row.schema)} | {_cell(row.schema.get('description', ''))} |"
            for row in rows
        ]
    return "\n".join(lines) + "\n"


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if schema.get("format") == "date-time":
        return "time"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema['items'])}s"
    if kind == "object" and "additionalProperties" in schema:
        return "map"
    return "text" if kind == "string" else str(kind)


def _default(row: Row) -> str:
    if row.required:
        return "**required**"
    if row.default is ... or "properties" in row.schema or row.default in ([], {}, ""):
        return ""
    return f"`{row.default if isinstance(row.default, str) else json.dumps(row.default)}`"


def _bounds(schema: Mapping[str, Any]) -> str:
    said = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        said.append(f"{low} to {high}")
    elif low is not None:
        said.append(f"at least {low}")
    elif high is not None:
        said.append(f"at most {high}")
    if "enum" in schema:
        said.append(" or ".join(f"`{choice}`" for choice in schema["enum"]))
    if BOUNDS in schema:
        return _cell(schema[BOUNDS])
    for key, unit in (("maxLength", "characters"), ("maxItems", "items"), ("maxProperties", "entries")):
        if key in schema:
            said.append(f"at most {schema[key]} {unit}")
    if "x-kubernetes-list-map-keys" in schema:
        said.append(f"unique by `{', '.join(schema['x-kubernetes-list-map-keys'])}`")
    return _cell("; ".join(said))


def _refusals(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Path and message of every validation rule; owned keys have a page of their own."""
    shown = path.lstrip(".") or "metadata.name"
    if schema.get(HINT):
        yield shown, schema[HINT]
    owned = False
    for rule in schema.get(RULES, ()):
        if _SAID_ELSEWHERE in rule.get("messageExpression", ""):
            owned = True
            continue
        yield shown + rule.get("fieldPath", ""), rule["message"]
    if owned:
        yield shown, "keys that [Spindle owns](owned-config.md)"
    for name, child in schema.get("properties", {}).items():
        yield from _refusals(child, f"{path}.{name}")
    if "items" in schema:
        yield from _refusals(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _refusals(schema["additionalProperties"], f"{path}.*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
