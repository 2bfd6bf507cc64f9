"""KafkaTopics and KafkaUsers of Strimzi as those of Spindle.

Fields follow ``KafkaTopicSpec``, ``KafkaUserSpec``, ``AclRule`` and ``KafkaUserQuotas`` of Strimzi's API (0.50).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from spindle.api.names import API_VERSION
from spindle.api.topic import THROTTLED, KafkaTopicSpec
from spindle.api.user import MAX_ACLS, KafkaUserSpec
from spindle.model import objects

StrimziObject = Mapping[str, Any]

_MANAGED: Final = "strimzi.io/managed"
_PAUSED: Final = "strimzi.io/pause-reconciliation"
_INTERNAL: Final = "__"
_LONGEST_USER: Final = 63  # characters
_PATTERNS: Final = {"literal": "literal", "prefix": "prefixed"}
_QUOTAS: Final = {
    "producerByteRate": "producerBytesPerSecond",
    "consumerByteRate": "consumerBytesPerSecond",
    "requestPercentage": "requestPercentage",
}


@dataclass(frozen=True)
class Converted:
    """One object.

    Attributes:
        was: kind and name with Strimzi.
        manifest: the object for Spindle; None if it has none.
        notes: what is different, or why there is none.
    """

    was: str
    manifest: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()


def topic(cluster: str, theirs: StrimziObject) -> Converted:
    """A KafkaTopic. It adopts the topic, and keeps it when the KafkaTopic is deleted."""
    name, was = objects.name(theirs), f"KafkaTopic {objects.name(theirs)}"
    spec, annotations = theirs.get("spec") or {}, theirs["metadata"].get("annotations") or {}
    called = str(spec.get("topicName") or (theirs.get("status") or {}).get("topicName") or name)
    if str(annotations.get(_MANAGED, "true")) == "false" or str(annotations.get(_PAUSED)) == "true":
        return Converted(was, None, ("Strimzi does not manage the topic, so it stays in Kafka as it is",))
    if called.startswith(_INTERNAL):
        return Converted(was, None, ("it is an internal topic, which needs no KafkaTopic",))
    config = {key: _text(value) for key, value in (spec.get("config") or {}).items() if value is not None}
    notes = [
        f"{key} is left out, because Spindle sets it itself" for key in THROTTLED if config.pop(key, None)
    ]
    made = {
        "cluster": cluster,
        "topicName": None if called == name else called,
        "partitions": spec.get("partitions"),
        "replicas": spec.get("replicas"),
        "config": config or None,
        "adopt": True,
    }
    return _checked(was, name, "KafkaTopic", made, KafkaTopicSpec, notes)


def user(cluster: str, theirs: StrimziObject) -> Converted:
    """A KafkaUser. One with a certificate gets another one; one with a password stays in Kafka without a KafkaUser."""
    name, was = objects.name(theirs), f"KafkaUser {objects.name(theirs)}"
    spec = theirs.get("spec") or {}
    kind = (spec.get("authentication") or {}).get("type")
    if kind == "scram-sha-512":
        why = (
            f"its password and its ACLs stay in Kafka, and clients continue with them. A KafkaUser {name} of Spindle would need a new password: delete the "
            "present one with kafka-configs first"
        )
        return Converted(was, None, (why,))
    if kind not in (None, "tls"):
        return Converted(was, None, (f"Spindle has nothing for authentication {kind}",))
    if _reserved(name):
        why = (
            "KafkaUsers of Spindle have names of at most 63 characters without dots, and neither admin, localhost nor a name that starts with spindle-: "
            "write one with another name by hand"
        )
        return Converted(was, None, (why,))
    rules = (spec.get("authorization") or {}).get("acls") or ()
    if any(rule.get("type", "allow") != "allow" for rule in rules):
        why = "it has ACLs that deny. KafkaUsers of Spindle only allow, so without them it could do more: write one by hand"
        return Converted(was, None, (why,))
    incomplete = next(filter(None, (_incomplete(i, rule) for i, rule in enumerate(rules))), None)
    if incomplete is not None:
        return Converted(was, None, (incomplete,))
    if len(rules) > MAX_ACLS:
        return Converted(was, None, (f"it has more than {MAX_ACLS} ACLs: create two KafkaUsers",))
    notes = []
    if kind:
        notes.append(
            f"clients need the certificate of Secret {cluster}.user.{name}, which another authority signs"
        )
    else:
        notes.append("it has no authentication with Strimzi, so it becomes a user with tokens of an issuer")
    quotas = spec.get("quotas") or {}
    notes += [f"quota {key} is left out" for key in quotas if key not in _QUOTAS]
    made = {
        "cluster": cluster,
        "authentication": "mtls" if kind else "oauth",
        "acls": [_acl(rule) for rule in rules] or None,
        "quotas": {ours: quotas[key] for key, ours in _QUOTAS.items() if quotas.get(key) is not None} or None,
    }
    return _checked(was, name, "KafkaUser", made, KafkaUserSpec, notes)


def converted(
    cluster: str, topics: Iterable[StrimziObject], users: Iterable[StrimziObject]
) -> list[Converted]:
    """All of a cluster, in the order of kinds and names."""
    return [topic(cluster, each) for each in sorted(topics, key=objects.name)] + [
        user(cluster, each) for each in sorted(users, key=objects.name)
    ]


def _reserved(name: str) -> bool:
    """Whether a KafkaUser of Spindle cannot have this name; the rules are those of `spindle.api.user.KafkaUser`."""
    return (
        len(name) > _LONGEST_USER
        or "." in name
        or name in ("admin", "localhost")
        or name.startswith("spindle-")
    )


def _incomplete(index: int, rule: Mapping[str, Any]) -> str | None:
    """Why Strimzi creates no ACL for a rule; it has a default neither for the name nor for the operations."""
    resource = rule.get("resource") or {}
    if resource.get("type") != "cluster" and not resource.get("name"):
        return f"spec.authorization.acls.{index}.resource has no name, so Strimzi creates no ACL: add the name (* for all), or remove the entry"
    if not rule.get("operations") and not rule.get("operation"):
        return f"spec.authorization.acls.{index} has no operations, so Strimzi creates no ACL: add them, or remove the entry"
    return None


def _acl(rule: Mapping[str, Any]) -> dict[str, Any]:
    resource = rule.get("resource") or {}
    made: dict[str, Any] = {"resource": resource.get("type")}
    if resource.get("type") != "cluster":
        pattern = str(resource.get("patternType") or "literal")
        made |= {"name": resource["name"], "pattern": _PATTERNS.get(pattern, pattern)}
    made["operations"] = [str(each) for each in rule.get("operations") or [rule["operation"]]]
    if rule.get("host", "*") != "*":
        made["host"] = rule["host"]
    return made


def _checked(
    was: str, name: str, kind: str, spec: Mapping[str, Any], model: type[BaseModel], notes: Iterable[str]
) -> Converted:
    """The object, if its spec is one that Spindle knows."""
    given = {key: value for key, value in spec.items() if value is not None}
    try:
        model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return Converted(was, None, (f"spec.{where}: {first['msg']}",))
    return Converted(
        was,
        {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": given},
        tuple(notes),
    )


def _text(value: Any) -> str:
    """A setting as Kafka writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, list) else str(value)
