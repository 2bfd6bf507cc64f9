"""What the models of all three kinds share: the base class, small types, and the marks that `crd` reads.

A mark is a key of ``json_schema_extra``. Keys that Kubernetes knows (``x-kubernetes-…``, ``maxItems`` …) go into the
CRD as they are; those that begin with ``x-spindle-`` are instructions to the generator and end there. Of a field and
its annotated type only one may carry rules: pydantic lets the field's replace the type's.

Parsing is lenient (unknown fields are ignored: the API server prunes and refuses, and an object that a newer Spindle
wrote must not stop an older one); bounds and rules are for the API server.
"""

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

HINT: Final = "x-spindle-hint"  # the sentence for a field's bounds
BOUNDS: Final = "x-spindle-bounds"  # what the reference page says of bounds that only a rule knows
INT_OR_STRING: Final = "x-spindle-int-or-string"
RULES: Final = "x-kubernetes-validations"


class ApiModel(BaseModel):
    """Base of every object in the API: snake_case here, camelCase in Kubernetes."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """As Kubernetes wants it: camelCase, JSON types, and nothing that is None (it would be applied as null)."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """From a raw dict of the API server.

        Raises:
            pydantic.ValidationError: what the API server would not have let through.
        """
        return cls.model_validate(raw)


# --- marks -----------------------------------------------------------------------------------------------------------


def rule(
    expression: str, message: str, *, field: str = "", say: str = "", new: bool = False
) -> dict[str, Any]:
    """One CEL rule.

    Args:
        expression: what must hold; ``self`` is the value, ``oldSelf`` makes it a rule for changes only.
        message: the sentence that the user reads: what is wrong, and what to write instead.
        field: path below this object (``.storageClass``) that the error is to name.
        say: CEL expression that builds a message with the value in it; ``message`` stands in if it fails.
        new: for what is new alone: what is there already can be changed and deleted as before.
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
    """The mark for CEL rules on a field or a model, with other marks beside it."""
    return {RULES: list(made), **more}


def hint(text: str, **more: Any) -> dict[str, Any]:
    """Turn a field's bounds into a CEL rule whose message is this sentence.

    The API server's own message for a bound says what the bound is, not what to do.
    """
    return {HINT: text, **more}


def list_map(*keys: str, most: int, **more: Any) -> dict[str, Any]:
    """A list of objects that are told apart by these keys, so that each can have its own owner."""
    return {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "maxItems": most,
        **more,
    }


def atomic(*, most: int, **more: Any) -> dict[str, Any]:
    """A list that is written as a whole by one owner."""
    return {"x-kubernetes-list-type": "atomic", "maxItems": most, **more}


def longest(characters: int) -> dict[str, Any]:
    """A bound on a text's length, for the API server only."""
    return {"maxLength": characters}


# --- small types -----------------------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ShortText = Annotated[str, Field(json_schema_extra=longest(63))]
Name = Annotated[str, Field(json_schema_extra=longest(253))]
Sentence = Annotated[str, Field(json_schema_extra=longest(32768))]  # a bound that breaks no report
Path = Annotated[str, Field(json_schema_extra=longest(512))]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
KafkaId = Annotated[str, Field(json_schema_extra=longest(22))]
TopicName = Annotated[str, Field(json_schema_extra=longest(249))]
Count = Annotated[int, Field(json_schema_extra={"minimum": 0})]
Bytes = Annotated[int, Field(json_schema_extra={"minimum": 0, "format": "int64"})]
NodeId = Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 9999})]

# A size on disk. Text only (not a bare number): CEL can then bound its cost, and a bare number is a forgotten unit.
Size = Annotated[
    str,
    Field(
        json_schema_extra=rules(
            rule(
                "isQuantity(self) && quantity(self).compareTo(quantity('64Mi')) >= 0",
                "a size is a Kubernetes quantity of at least 64Mi: a number and a unit, for example 100Gi or 2Ti",
                say='"\'" + self + "\' is no usable size: write a number and a unit, at least 64Mi, for example 100Gi or 2Ti"',
            ),
            maxLength=32,
            **{BOUNDS: "at least 64Mi"},
        )
    ),
]


# Bytes to keep free or set aside. Text only, for the same reasons.
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
    """An amount of CPU or memory: a bare number is usual there (cpu: 2), so it is either number or text.

    CEL knows no bound for the length of such a text, so the test may parse it once at most.
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

    cpu: Cpu | None = Field(None, description="Processor time in cores: 2, or 500m for half a core.")
    memory: MemoryQuantity | None = Field(None, description="Memory in bytes, with a unit: 4Gi.")


class ResourceRequirements(ApiModel):
    """CPU and memory of a container, as in any pod."""

    requests: ResourceAmounts = Field(
        default_factory=ResourceAmounts, description="What the scheduler sets aside on the node."
    )
    limits: ResourceAmounts = Field(
        default_factory=ResourceAmounts,
        description="What the container may use at most. Past the memory limit it is killed.",
    )


class Toleration(ApiModel):
    """A taint on nodes that pods put up with, as in any pod."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.operator != 'Exists' || !has(self.value) || self.value == ''",
                "a toleration with operator Exists takes no value: leave out value, or write operator: Equal",
                field=".value",
            ),
            rule(
                "self.operator == 'Exists' || (has(self.key) && self.key != '')",
                "a toleration without a key tolerates everything only with operator: Exists; name a key or write operator: Exists",
                field=".operator",
            ),
            rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "tolerationSeconds counts only for effect: NoExecute; write that effect or leave tolerationSeconds out",
                field=".tolerationSeconds",
            ),
        )
    )

    key: Annotated[str, Field(json_schema_extra=longest(316))] | None = Field(
        None, description="Key of the taint. Empty, with operator Exists, means every taint."
    )
    operator: Literal["Exists", "Equal"] = Field(
        "Equal", description="Equal compares key and value, Exists only the key."
    )
    value: ShortText | None = Field(None, description="Value of the taint, for operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Effect of the taint. Left out, every effect."
    )
    toleration_seconds: int | None = Field(
        None,
        description="Seconds that a pod stays after the taint appeared (NoExecute only). Left out, for ever.",
        json_schema_extra={"format": "int64"},
    )


class Condition(ApiModel):
    """One condition of an object, in the usual form."""

    type: ShortText = Field(description="What the condition is about.")
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})] = Field(
        description="True, False or Unknown."
    )
    reason: ShortText = Field(
        "", description="One word in CamelCase that programs can rely on; the manual lists them."
    )
    message: Sentence = Field("", description="A sentence for people: what is so, and what would change it.")
    last_transition_time: Time | None = Field(None, description="When status last changed.")
    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this was found for.",
        json_schema_extra={"format": "int64"},
    )


class ObjectMeta(ApiModel):
    """The part of an object's metadata that Spindle reads."""

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
        description="The object's state, one condition a subject.",
        json_schema_extra=list_map("type", most=32),
    )
