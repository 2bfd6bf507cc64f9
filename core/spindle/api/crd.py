"""From the models to CustomResourceDefinitions: what pydantic says, put the way Kubernetes takes it.

Two steps: `schema_of` gives one self-contained JSON schema with our marks still in it (the reference pages are made
from that), `structural` turns it into the OpenAPI v3 dialect that Kubernetes calls a structural schema.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster
from spindle.api.common import HINT, INT_OR_STRING, RULES, ApiModel, rule
from spindle.api.rebalance import KafkaRebalance
from spindle.api.user import KafkaUser
from spindle.cluster.names import GROUP, VERSION

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
    """One kind of the API and how kubectl shows it.

    Attributes:
        made_by_users: whether users apply objects of this kind, and tools then wait until they are in effect.
    """

    model: type[ApiModel]
    plural: str
    short: str
    columns: tuple[Column, ...]
    made_by_users: bool = True

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
            Column("Version", ".spec.version", description="Release of Apache Kafka that is asked for."),
            Column("Brokers", ".status.brokers.summary", description="Ready brokers of all brokers."),
            Column("Disks", ".status.disks.summary", description="Healthy disks of all disks."),
            Column("Racks", ".status.rackCount", "integer", "Racks that have brokers."),
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
            Column("Status", ".status.phase", description="The state of things in one sentence."),
        ),
    ),
    CustomResource(
        KafkaBroker,
        "kafkabrokers",
        "skb",
        (
            Column("ID", ".spec.id", "integer", "Kafka's id of the broker."),
            Column("Rack", ".spec.rack", description="Rack of the broker."),
            Column("Node", ".spec.node", description="Node that its volumes are on."),
            Column("Disks", ".status.disksSummary", description="Healthy disks of all disks."),
            Column("Fullest", ".status.fullest", description="Fill of the fullest disk."),
            Column("State", ".status.state", description="State of the broker."),
            _AGE,
            Column("Message", ".status.message", description="Why it is so.", wide=True),
        ),
        made_by_users=False,
    ),
    CustomResource(
        KafkaRebalance,
        "kafkarebalances",
        "skr",
        (
            Column("Cluster", ".spec.cluster", description="The KafkaCluster that it is for."),
            Column("Phase", ".status.phase", description="How far it is."),
            Column(
                "Approved", ".spec.approved", description="Hash that was approved; empty while it was not."
            ),
            Column("Moved", ".status.progress", description="Finished moves of all moves."),
            Column("ETA", ".status.eta", description="When it should be done."),
            Column(
                "Expires", ".spec.expires", description="After this time it is not begun any more.", wide=True
            ),
            _AGE,
            Column("Message", ".status.message", description="Why it is so.", wide=True),
        ),
    ),
    CustomResource(
        KafkaUser,
        "kafkausers",
        "sku",
        (
            Column("Cluster", ".spec.cluster", description="The KafkaCluster that it is of."),
            Column("Authentication", ".spec.authentication", description="By certificate or by password."),
            Column(
                "Ready",
                '.status.conditions[?(@.type=="Ready")].status',
                description="Whether it has all that it is to have.",
            ),
            Column("Secret", ".status.secret", description="Where its credentials are."),
            _AGE,
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
                    "schema": {"openAPIV3Schema": _object_schema(kind)},
                }
            ],
        },
    }


def _object_schema(kind: CustomResource) -> Schema:
    schema = structural(schema_of(kind.model))
    # A default in the status would be read as something that was found.
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
    """The schema of a whole object, references inlined, options of None unwrapped, marks kept.

    Raises:
        TypeError: the model uses something that a structural schema cannot say.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    made = _inline(raw, raw.get("$defs", {}), path=model.__name__, within=())
    properties = made["properties"]
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"type": "object"}
    if any(one.get("fieldPath") == ".metadata.name" for one in made.get(RULES, ())):
        # An error can name only a field that the schema has.
        properties["metadata"]["properties"] = {"name": {"type": "string"}}
    return made


def _inline(node: Mapping[str, Any], defs: Mapping[str, Any], path: str, within: tuple[str, ...]) -> Schema:
    siblings = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "$defs", *_DROPPED)}
    if "$ref" in node:
        target = node["$ref"].rpartition("/")[2]
        if target in within:
            raise TypeError(f"{path}: {target} contains itself, which a structural schema cannot say")
        return _merge(_inline(defs[target], defs, path, (*within, target)), siblings)
    if "anyOf" in node:
        options = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(options) != 1:
            raise TypeError(f"{path}: a union; write optional fields and a rule instead")
        return _merge(_inline(options[0], defs, path, within), siblings)
    for key in _FORBIDDEN:
        if key in siblings:
            raise TypeError(f"{path}: {key} has no place in a structural schema")
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
        made.pop("additionalProperties", None)  # pruning and strict field validation refuse what is unknown
    if made.pop(INT_OR_STRING, False):
        made.pop("type", None)
        made["x-kubernetes-int-or-string"] = True
    return made


def _merge(inner: Schema, outer: Schema) -> Schema:
    """What a field says goes over what its type says; rules of both hold."""
    made = {**inner, **outer}
    both = [*inner.get(RULES, ()), *outer.get(RULES, ())]
    if both:
        made[RULES] = both
    # Of an object it is kept for now: it says that the object is to be absent, not to be made of its fields' defaults.
    if made.get("default", ...) is None and "properties" not in made:
        del made["default"]
    if "description" in made:
        made["description"] = " ".join(made["description"].split())
    return made


# --- step 2: what Kubernetes takes -------------------------------------------------------------------------------------


def structural(schema: Mapping[str, Any]) -> Schema:
    """A structural schema: hints become rules, defaults stand where the API server applies them, marks are gone."""
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
    """Bounds become a rule where there is a sentence for them.

    Not both: an object that breaks a bound of the schema is refused before rules are looked at, without the sentence.
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

    The API server checks a default against the rules before it fills in what is below, so an object's default is
    written out with those of all its fields; unless it is to be absent. A collection that would be empty needs none.
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
