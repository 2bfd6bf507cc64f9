"""Shared by the models of all kinds: the base class, small types, and the schema extensions that `crd` reads.

An extension is a key of ``json_schema_extra``. Keys that Kubernetes knows (``x-kubernetes-…``, ``maxItems`` …) are copied into the
CRD; keys that start with ``x-spindle-`` are instructions to the generator and are not. Only one of a field and its
annotated type may carry rules: in pydantic the field's rules replace those of the type.

Parsing is lenient: unknown fields are ignored, because the API server prunes or rejects them, and because an object written by a newer
Spindle must not stop an older one. Bounds and rules are enforced by the API server only.
"""

import json
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.alias_generators import to_camel

HINT: Final = "x-spindle-hint"  # the message for a violation of a field's bounds
BOUNDS: Final = "x-spindle-bounds"  # text on the reference page for bounds that only a CEL rule expresses
INT_OR_STRING: Final = "x-spindle-int-or-string"
RULES: Final = "x-kubernetes-validations"


class ApiModel(BaseModel):
    """Base class of all API models: snake_case in Python, camelCase in Kubernetes."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """As Kubernetes expects it: camelCase, JSON types, and without None (which server-side apply would write as null)."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def to_text(self) -> str:
        """`to_dict` as JSON with sorted keys."""
        return _with_sorted_keys(self.model_dump_json(by_alias=True, exclude_none=True))

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Parse a dict from the API server.

        Raises:
            pydantic.ValidationError: the API server would have rejected the object.
        """
        return cls.model_validate(raw)


@lru_cache(maxsize=256)
def _with_sorted_keys(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


# --- schema extensions -----------------------------------------------------------------------------------------------------------


def rule(
    expression: str, message: str, *, field: str = "", say: str = "", new: bool = False
) -> dict[str, Any]:
    """One CEL rule.

    Args:
        expression: what must hold; ``self`` is the value; with ``oldSelf`` it is a transition rule, checked on updates only.
        message: what the user reads: what is wrong, and what to write instead.
        field: path below this object (``.storageClass``) that the error refers to.
        say: CEL expression that builds a message with the value in it; ``message`` is used if it fails.
        new: check new objects only, so that existing ones can still be updated and deleted.
    """
    made: dict[str, Any] = {"rule": expression, "message": message}
    if new:
        made |= {"rule": f"oldSelf.hasValue() || ({expression})", "optionalOldSelf": True}
    if say:
        made["messageExpression"] = say
    if field:
        made["fieldPath"] = field
    return made


def rules(*made: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The schema extension for CEL rules on a field or a model, together with other extensions."""
    return {RULES: list(made), **more}


def hint(text: str, **more: Any) -> dict[str, Any]:
    """Turn a field's bounds into a CEL rule with this message.

    The API server's own message for a bound only states the bound, not what to do.
    """
    return {HINT: text, **more}


def list_map(*keys: str, most: int, **more: Any) -> dict[str, Any]:
    """A list of objects identified by these keys, so that each can have its own owner in server-side apply."""
    return {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "maxItems": most,
        **more,
    }


def atomic(*, most: int, **more: Any) -> dict[str, Any]:
    """A list that one owner writes as a whole."""
    return {"x-kubernetes-list-type": "atomic", "maxItems": most, **more}


def longest(characters: int) -> dict[str, Any]:
    """A maximum length of a string, checked by the API server only."""
    return {"maxLength": characters}


# --- small types -----------------------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ShortText = Annotated[str, Field(json_schema_extra=longest(63))]
Name = Annotated[str, Field(json_schema_extra=longest(253))]
Sentence = Annotated[str, Field(json_schema_extra=longest(32768))]  # large enough for every report
Path = Annotated[str, Field(json_schema_extra=longest(512))]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
KafkaId = Annotated[str, Field(json_schema_extra=longest(22))]
TopicName = Annotated[str, Field(json_schema_extra=longest(249))]
Count = Annotated[int, Field(json_schema_extra={"minimum": 0})]
Bytes = Annotated[int, Field(json_schema_extra={"minimum": 0, "format": "int64"})]
NodeId = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 9999})]

# A size on disk. Strings only: CEL can then bound its cost, and a bare number usually means a forgotten unit.
Size = Annotated[
    str,
    Field(
        json_schema_extra=rules(
            rule(
                "isQuantity(self) && quantity(self).compareTo(quantity('64Mi')) >= 0",
                "a size is a Kubernetes quantity of at least 64Mi: a number and a unit, for example 100Gi or 2Ti",
                say='"\'" + self + "\' is not a valid size: write a number and a unit, at least 64Mi, for example 100Gi or 2Ti"',
            ),
            maxLength=32,
            **{BOUNDS: "at least 64Mi"},
        )
    ),
]


# Bytes to keep free or reserve. Strings only, for the same reasons.
Amount = Annotated[
    str,
    Field(
        json_schema_extra=rules(
            rule(
                "isQuantity(self) && quantity(self).compareTo(quantity('1Mi')) >= 0",
                "an amount of bytes is a Kubernetes quantity of at least 1Mi: a number and a unit, for example 50Gi",
            ),
            maxLength=32,
            **{BOUNDS: "at least 1Mi"},
        )
    ),
]


def _amount(test: str, message: str) -> Any:
    """An amount of CPU or memory: bare numbers are common there (cpu: 2), so it is a number or a string.

    CEL knows no bound for the length of such a string, so the test may parse it only once.
    """
    return Field(json_schema_extra=rules(rule(test, message), **{INT_OR_STRING: True}))


Cpu = Annotated[
    str,
    BeforeValidator(_text),
    _amount(
        "type(self) == int ? self > 0 : isQuantity(self) && !self.startsWith('-') && self != '0'",
        "cpu is a number of cores above 0: write for example 2, or 500m for half a core",
    ),
]

MemoryQuantity = Annotated[
    str,
    BeforeValidator(_text),
    _amount(
        "type(self) == int ? self >= 1048576 : isQuantity(self) && !self.startsWith('-') && self != '0' && !self.endsWith('m')",
        "memory is a quantity with a unit, at least 1Mi: write for example 512Mi or 4Gi (512m would be half a byte)",
    ),
]


class ResourceAmounts(ApiModel):
    """Amounts of CPU and memory."""

    cpu: Cpu | None = Field(None, description="CPU in cores: 2, or 500m for half a core.")
    memory: MemoryQuantity | None = Field(None, description="Memory in bytes, with a unit: 4Gi.")


class ResourceRequirements(ApiModel):
    """CPU and memory of a container, as in the pod spec."""

    requests: ResourceAmounts = Field(
        default_factory=ResourceAmounts, description="What the scheduler reserves on the node."
    )
    limits: ResourceAmounts = Field(
        default_factory=ResourceAmounts,
        description="Maximum that the container may use. Above the memory limit it is OOM-killed.",
    )


class Toleration(ApiModel):
    """A toleration of a node taint, as in the pod spec."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.operator != 'Exists' || !has(self.value) || self.value == ''",
                "a toleration with operator Exists takes no value: omit value, or write operator: Equal",
                field=".value",
            ),
            rule(
                "self.operator == 'Exists' || (has(self.key) && self.key != '')",
                "a toleration without a key tolerates everything only with operator: Exists; name a key or write operator: Exists",
                field=".operator",
            ),
            rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerationSeconds applies only to effect: NoExecute; write that effect or omit tolerationSeconds",
                field=".tolerationSeconds",
            ),
        )
    )

    key: Annotated[str, Field(json_schema_extra=longest(316))] | None = Field(
        None, description="Key of the taint. Empty, with operator Exists, matches every taint."
    )
    operator: Literal["Exists", "Equal"] = Field(
        "Equal", description="Equal compares key and value, Exists only the key."
    )
    value: ShortText | None = Field(None, description="Value of the taint, for operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Effect of the taint. If unset, every effect."
    )
    toleration_seconds: int | None = Field(
        None,
        description="Seconds that a pod stays after the taint appeared (NoExecute only). If unset, forever.",
        json_schema_extra={"format": "int64"},
    )


class Condition(ApiModel):
    """One condition of an object, in the form of the Kubernetes API conventions."""

    type: ShortText = Field(description="Type of the condition.")
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})] = Field(
        description="True, False or Unknown."
    )
    reason: ShortText = Field(
        "", description="Reason in CamelCase for programs; the documentation lists all reasons."
    )
    message: Sentence = Field("", description="Explanation for users: the state, and what would change it.")
    last_transition_time: Time | None = Field(None, description="When the status last changed.")
    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this condition was determined for.",
        json_schema_extra={"format": "int64"},
    )


class ObjectMeta(ApiModel):
    """The fields of an object's metadata that Spindle reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value}


def conditions_field() -> Any:
    """The field ``conditions`` of a status."""
    return Field(
        default_factory=list,
        description="Conditions of the object, one per type.",
        json_schema_extra=list_map("type", most=32),
    )
