"""Whether a Kubernetes node suits a pod: labels, taints, selectors.

Nodes are raw objects as the API server lists them. A field that is missing or has an unexpected type counts as absent.
"""

from collections.abc import Iterable, Mapping
from typing import Any

NodeObject = Mapping[str, Any]

_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
# The taints that Kubernetes sets and removes according to a node's conditions.
_PASSING = "node.kubernetes.io/"


def section(value: object, *path: str) -> Mapping[str, Any]:
    """A mapping inside an object; empty if there is none."""
    for key in path:
        if (
            type(value) is dict
        ):  # the usual case; isinstance(…, Mapping) takes longer than everything else here
            value = value.get(key)
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def items(value: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; empty if there is no list."""
    if not isinstance(value, list | tuple):
        return []
    return [entry for entry in value if type(entry) is dict or isinstance(entry, Mapping)]


def name(node: NodeObject) -> str:
    """A node's name, empty if it has none."""
    return str(section(node, "metadata").get("name") or "")


def labels(node: NodeObject) -> dict[str, str]:
    """A node's labels."""
    return {str(k): str(v) for k, v in section(node, "metadata", "labels").items() if v is not None}


def zone(node: NodeObject, topology_key: str) -> str | None:
    """The zone of a node from its label; None if the label is missing or empty."""
    return labels(node).get(topology_key) or None


def selected(node: NodeObject, selector: Mapping[str, str]) -> bool:
    """Whether a node has all labels of a pod's ``nodeSelector``."""
    having = labels(node)
    return all(having.get(key) == value for key, value in selector.items())


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the tolerations matches a taint (the rules of core/v1 Toleration).

    An empty key with operator Exists matches every taint, an empty effect every effect. ``tolerationSeconds`` does not
    matter: such a pod is scheduled all the same.
    """
    return any(_matches(toleration, taint) for toleration in tolerations)


def admits(node: NodeObject, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a new pod could be scheduled to a node: schedulable, not known to be unready, all taints tolerated."""
    if section(node, "spec").get("unschedulable") is True:
        return False
    for condition in items(section(node, "status").get("conditions")):
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            return False
    return not any(not tolerated(taint, tolerations) for taint in _taints(node))


def closed(node: NodeObject, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a user closed a node to such pods: cordoned, or with a taint that Kubernetes did not set itself."""
    return section(node, "spec").get("unschedulable") is True or not belongs(node, {}, tolerations)


def belongs(node: NodeObject, selector: Mapping[str, str], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a node is intended for such pods, even if it is cordoned or unready now."""
    lasting = (taint for taint in _taints(node) if not str(taint.get("key") or "").startswith(_PASSING))
    return (
        bool(name(node))
        and selected(node, selector)
        and not any(not tolerated(taint, tolerations) for taint in lasting)
    )


def matches_selector(node: NodeObject, selector: object) -> bool:
    """Whether a node matches a ``NodeSelector`` (a volume's ``nodeAffinity.required``): terms ORed, parts ANDed.

    A selector without terms, a term without parts, and an unknown operator match nothing.
    """
    return any(_matches_term(node, term) for term in items(section(selector).get("nodeSelectorTerms")))


def _taints(node: NodeObject) -> list[Mapping[str, Any]]:
    return [t for t in items(section(node, "spec").get("taints")) if t.get("effect") in _KEEPS_OUT]


def _matches(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    operator = toleration.get("operator") or "Equal"
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _matches_term(node: NodeObject, term: Mapping[str, Any]) -> bool:
    expressions, fields = items(term.get("matchExpressions")), items(term.get("matchFields"))
    if not expressions and not fields:
        return False
    having = labels(node)
    return all(_holds(e, having) for e in expressions) and all(
        _holds(f, {"metadata.name": name(node)}) for f in fields
    )


def _holds(requirement: Mapping[str, Any], having: Mapping[str, str]) -> bool:
    """One ``NodeSelectorRequirement``."""
    value = having.get(str(requirement.get("key") or ""))
    raw = requirement.get("values")
    values = [str(v) for v in raw] if isinstance(raw, list | tuple) else []
    match requirement.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    """Gt and Lt: whole numbers, exactly one value."""
    try:
        left, right = int(value or ""), int(values[0] if len(values) == 1 else "")
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right
