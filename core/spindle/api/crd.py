"""Generates CustomResourceDefinitions from the pydantic models.

Two steps: `schema_of` returns one self-contained JSON schema that still contains Spindle's extensions (the reference pages are generated
from it); `structural` turns it into the OpenAPI v3 dialect that Kubernetes calls a structural schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster
from spindle.api.common import HINT, INT_OR_STRING, RULES, ApiModel, rule
from spindle.api.names import GROUP, VERSION
from spindle.api.rebalance import KafkaRebalance
from spindle.api.topic import KafkaTopic
from spindle.api.user import KafkaUser

Schema = dict[str, Any]

_DROPPED: Final = ("title", "discriminator")
_FORBIDDEN: Final = (
    "prefixItems",
    "patternProperties",
    "oneOf",
    "allOf",
    "not",
    "if",
    "uniqueItems",
    "$defs",
)
_ORDER: Final = ("description", "type", "format", "default", "enum", "required", "properties", "items")
_RULE_ORDER: Final = ("rule", "message", "messageExpression", "fieldPath", "optionalOldSelf")


@dataclass(frozen=True)
class Column:
    """One printer column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False


@dataclass(frozen=True)
class CustomResource:
    """One kind of the API and its printer columns.

    Attributes:
        made_by_users: whether users apply objects of this kind, and tools then wait until they are in effect.
        selectable: fields by which clients can select objects in lists and watches, as JSON paths. Kubernetes 1.30 ignores them.
    """

    model: type[ApiModel]
    plural: str
    short: str
    columns: tuple[Column, ...]
    made_by_users: bool = True
    selectable: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the kind: KafkaCluster."""
        return self.model.__name__

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")

KINDS: Final = (
    CustomResource(
        KafkaCluster,
        "kafkaclusters",
        "skc",
        (
            Column("Version", ".spec.version", description="Desired release of Apache Kafka."),
            Column("Brokers", ".status.brokers.summary", description="Ready brokers / all brokers."),
            Column("Disks", ".status.disks.summary", description="Healthy disks / all disks."),
            Column("Racks", ".status.rackCount", "integer", "Number of racks with brokers."),
            Column(
                "Ready",
                '.status.conditions[?(@.type=="Ready")].status',
                description="Whether there is no fault; stays True through a healthy rolling restart.",
            ),
            Column(
                "Available",
                '.status.conditions[?(@.type=="Available")].status',
                description="Whether every partition has a leader and min.insync.replicas in-sync replicas.",
                wide=True,
            ),
            Column(
                "Stalled",
                '.status.conditions[?(@.type=="Stalled")].status',
                description="Whether Spindle waits for a user.",
                wide=True,
            ),
            _AGE,
            Column("Status", ".status.phase", description="State of the cluster in one sentence."),
        ),
    ),
    CustomResource(
        KafkaBroker,
        "kafkabrokers",
        "skb",
        (
            Column("ID", ".spec.id", "integer", "Broker id in Kafka."),
            Column("Rack", ".spec.rack", description="Rack of the broker."),
            Column("Node", ".spec.node", description="Node of its volumes."),
            Column("Disks", ".status.disksSummary", description="Healthy disks / all disks."),
            Column("Fullest", ".status.fullest", description="Usage of the fullest disk."),
            Column("State", ".status.state", description="State of the broker."),
            _AGE,
            Column("Message", ".status.message", description="Why it is so.", wide=True),
        ),
        made_by_users=False,
        selectable=(".spec.node",),  # agents watch the KafkaBrokers of their own node
    ),
    CustomResource(
        KafkaRebalance,
        "kafkarebalances",
        "skr",
        (
            Column("Cluster", ".spec.cluster", description="KafkaCluster of the proposal."),
            Column("Phase", ".status.phase", description="Phase of the proposal."),
            Column("Approved", ".spec.approved", description="Approved hash; empty if not approved."),
            Column("Moved", ".status.progress", description="Completed moves / all moves."),
            Column("ETA", ".status.eta", description="Expected end."),
            Column("Expires", ".spec.expires", description="After this time it is not started.", wide=True),
            _AGE,
            Column("Message", ".status.message", description="Why it is so.", wide=True),
        ),
    ),
    CustomResource(
        KafkaUser,
        "kafkausers",
        "sku",
        (
            Column("Cluster", ".spec.cluster", description="KafkaCluster of the user."),
            Column(
                "Authentication",
                ".spec.authentication",
                description="Certificate (mtls) or password (scram).",
            ),
            Column(
                "Ready",
                '.status.conditions[?(@.type=="Ready")].status',
                description="Whether its Secret, ACLs and quotas are set.",
            ),
            Column("Secret", ".status.secret", description="Secret with its credentials."),
            _AGE,
        ),
    ),
    CustomResource(
        KafkaTopic,
        "kafkatopics",
        "skt",
        (
            Column("Cluster", ".spec.cluster", description="KafkaCluster of the topic."),
            Column("Topic", ".status.topicName", description="Name of the topic in Kafka."),
            Column("Partitions", ".status.partitions", "integer", "Number of partitions."),
            Column("Replicas", ".status.replicas", "integer", "Replication factor."),
            Column(
                "Ready",
                '.status.conditions[?(@.type=="Ready")].status',
                description="Whether the topic is as its spec says.",
            ),
            Column("Bytes", ".status.bytes", "integer", "Bytes of all replicas together.", wide=True),
            Column("Policy", ".spec.deletionPolicy", description="What its deletion does.", wide=True),
            _AGE,
            Column(
                "Message",
                '.status.conditions[?(@.type=="Ready")].message',
                description="What Spindle does, or waits for.",
                wide=True,
            ),
        ),
    ),
)


def crd(kind: CustomResource) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind, ready to be applied."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "spindle"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
                "categories": ["spindle"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    **(
                        {"selectableFields": [{"jsonPath": path} for path in kind.selectable]}
                        if kind.selectable
                        else {}
                    ),
                    "schema": {"openAPIV3Schema": _object_schema(kind)},
                }
            ],
        },
    }


def _object_schema(kind: CustomResource) -> Schema:
    schema = structural(schema_of(kind.model))
    # A default in the status would look like an observed value.
    schema["properties"]["status"] = _without_defaults(schema["properties"]["status"])
    if kind.made_by_users:
        # kstatus takes an object without a status for one that is in effect. No generation is -1.
        schema["properties"]["status"]["default"] = {"observedGeneration": -1}
    return schema


def _without_defaults(schema: Schema) -> Schema:
    made = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in made:
        made["properties"] = {name: _without_defaults(child) for name, child in made["properties"].items()}
    if "items" in made:
        made["items"] = _without_defaults(made["items"])
    return made


def _column(column: Column) -> dict[str, Any]:
    made: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        made["description"] = column.description
    if column.wide:
        made["priority"] = 1
    return made


# --- step 1: one self-contained schema ---------------------------------------------------------------------------------


def schema_of(model: type[ApiModel]) -> Schema:
    """The schema of a whole object, with references inlined, optional types unwrapped, and Spindle's extensions kept.

    Raises:
        TypeError: the model uses something that a structural schema cannot express.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    made = _inline(raw, raw.get("$defs", {}), path=model.__name__, within=())
    properties = made["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    if any(one.get("fieldPath") == ".metadata.name" for one in made.get(RULES, ())):
        # An error can refer only to a field that the schema has.
        properties["metadata"]["properties"] = {"name": {"type": "string"}}
    return made


def _inline(node: Mapping[str, Any], defs: Mapping[str, Any], path: str, within: tuple[str, ...]) -> Schema:
    siblings = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "$defs", *_DROPPED)}
    if "$ref" in node:
        target = node["$ref"].rpartition("/")[2]
        if target in within:
            raise TypeError(f"{path}: {target} contains itself, which a structural schema cannot express")
        return _merge(_inline(defs[target], defs, path, (*within, target)), siblings)
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(options) != 1:
            raise TypeError(f"{path}: a union; write optional fields and a rule instead")
        return _merge(_inline(options[0], defs, path, within), siblings)
    for key in _FORBIDDEN:
        if key in siblings:
            raise TypeError(f"{path}: {key} is not allowed in a structural schema")
    return _children(siblings, defs, path, within)


def _children(node: Schema, defs: Mapping[str, Any], path: str, within: tuple[str, ...]) -> Schema:
    made = dict(node)
    if "description" in made:
        made["description"] = " ".join(made["description"].split())
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if made.get("default", ...) is None:
        del made["default"]
    if "properties" in made:
        made["properties"] = {
            name: _inline(child, defs, f"{path}.{name}", within) for name, child in made["properties"].items()
        }
    if "items" in made:
        made["items"] = _inline(made["items"], defs, f"{path}[]", within)
    values = made.get("additionalProperties")
    if isinstance(values, dict):
        made["additionalProperties"] = _inline(values, defs, f"{path}{{}}", within)
    else:
        made.pop("additionalProperties", None)  # pruning and strict field validation handle unknown fields
    if made.pop(INT_OR_STRING, False):
        made.pop("type", None)
        made["x-kubernetes-int-or-string"] = True
    return made


def _merge(inner: Schema, outer: Schema) -> Schema:
    """Merge a field's schema over that of its type; the rules of both apply."""
    made = {**inner, **outer}
    both = [*inner.get(RULES, ()), *outer.get(RULES, ())]
    if both:
        made[RULES] = both
    # For an object it is kept for now: it means that the object stays absent instead of being filled with its fields' defaults.
    if made.get("default", ...) is None and "properties" not in made:
        del made["default"]
    if "description" in made:
        made["description"] = " ".join(made["description"].split())
    return made


# --- step 2: the structural schema -------------------------------------------------------------------------------------


def structural(schema: Mapping[str, Any]) -> Schema:
    """A structural schema: hints become rules, defaults are where the API server applies them, Spindle's extensions are removed."""
    made = dict(schema)
    _hint_to_rule(made)
    if "properties" in made:
        made["properties"] = {name: structural(child) for name, child in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = structural(made[key])
    _defaults(made)
    if RULES in made:
        made[RULES] = [{key: one[key] for key in _RULE_ORDER if key in one} for one in made[RULES]]
    made = {key: value for key, value in made.items() if not key.startswith("x-spindle-")}
    return dict(
        sorted(made.items(), key=lambda item: _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER))
    )


def _hint_to_rule(made: Schema) -> None:
    """Replace bounds by a rule where there is a message for them.

    Not both: the API server checks a schema's bounds before the rules, so the user would not see the message.
    """
    text = made.get(HINT)
    if not text:
        return
    low, high = made.pop("minimum", None), made.pop("maximum", None)
    tests = [f"self >= {low}"] if low is not None else []
    tests += [f"self <= {high}"] if high is not None else []
    made[RULES] = [rule(" && ".join(tests), text), *made.get(RULES, ())]


def _defaults(made: Schema) -> None:
    """Give every optional field its default.

    The API server validates a default before it fills in nested defaults, so an object's default includes those of all its fields,
    unless the object stays absent. An empty collection needs no default.
    """
    needed = made.get("required", ())
    for name, child in made.get("properties", {}).items():
        if name in needed:
            child.pop("default", None)
        elif "properties" in child:
            if child.pop("default", ...) is None:
                continue
            whole = {
                key: field["default"] for key, field in child["properties"].items() if "default" in field
            }
            if whole and not child.get("required"):
                child["default"] = whole
        elif child.get("default") in ([], {}, ""):
            del child["default"]


def crds() -> dict[str, dict[str, Any]]:
    """All CustomResourceDefinitions by file name."""
    return {f"{kind.plural}.yaml": crd(kind) for kind in KINDS}
