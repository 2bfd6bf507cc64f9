"""KafkaRebalance: a proposal to move replicas. It expires; only approved and stop can be changed."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from spindle.api.common import (
    ApiModel,
    Bytes,
    Condition,
    Count,
    ObjectMeta,
    Path,
    Sentence,
    ShortText,
    Time,
    TopicName,
    atomic,
    conditions_field,
    longest,
    rule,
    rules,
)
from spindle.cluster.names import API_VERSION

MAX_MOVES = 2000

_FROZEN = "a proposal cannot be changed: only approved and stop can; delete it and have a new one made"
_IS_HASH = rule(
    "self.matches('^[0-9a-f]{8,128}$')",
    "this is no hash: it has 8 to 128 hexadecimal digits; copy spec.inputHash as it stands",
)

Digits = Annotated[str, Field(json_schema_extra=longest(128))]


def _frozen(*more: dict[str, str]) -> dict[str, Any]:
    return rules(*more, rule("self == oldSelf", _FROZEN))


def _frozen_presence(*fields: str) -> list[dict[str, str]]:
    """Optional fields neither come nor go (a rule on the field itself sees only changes of its value)."""
    return [
        rule(f"has(self.{field}) == has(oldSelf.{field})", _FROZEN, field=f".{field}") for field in fields
    ]


class ProposedMove(ApiModel):
    """One replica that is to move to another broker or another disk."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_broker: Count = Field(description="Broker that it leaves.")
    from_dir: Path = Field(description="Log dir that it leaves.")
    to_broker: Count = Field(description="Broker that it goes to; the same one for a move between disks.")
    to_dir: Path = Field(description="Log dir that it goes to.")
    bytes: Bytes = Field(description="Size of the replica in bytes when the plan was made.")
    wave: Count | None = Field(
        None,
        description="Moves of a wave begin when those of all waves before have ended. Left out, each begins as soon as it may.",
    )
    reason: Annotated[str, Field(json_schema_extra=longest(256))] = Field(
        "", description="Why it is to move, as a sentence."
    )


class Lead(ApiModel):
    """A partition that is to be led by another one of its brokers."""

    topic: TopicName = Field(description="Topic of the partition.")
    partition: Count = Field(description="Number of the partition.")
    broker: Count = Field(
        description="Broker that is to be its preferred leader, once its replica has moved."
    )


class Cost(ApiModel):
    """What the moves cost."""

    bytes_inter: Bytes = Field(0, description="Bytes that go over the network, from broker to broker.")
    bytes_intra: Bytes = Field(0, description="Bytes that go from disk to disk of one broker.")
    moves: Count = Field(0, description="How many replicas move.")


class Gain(ApiModel):
    """What the moves are good for: some figures before and after."""

    fullest_percent_before: Count | None = Field(
        None, description="Fill of the fullest disk before, in per cent."
    )
    fullest_percent_after: Count | None = Field(
        None, description="Fill of the fullest disk after, in per cent."
    )
    disks_out_of_band_before: Count | None = Field(None, description="Disks too full or too empty before.")
    disks_out_of_band_after: Count | None = Field(None, description="Disks too full or too empty after.")
    brokers_out_of_band_before: Count | None = Field(
        None, description="Brokers too full or too empty before."
    )
    brokers_out_of_band_after: Count | None = Field(None, description="Brokers too full or too empty after.")
    rack_violations_before: Count | None = Field(None, description="Partitions on too few racks before.")
    rack_violations_after: Count | None = Field(None, description="Partitions on too few racks after.")


class ProposalForecast(ApiModel):
    """What would come without the moves."""

    horizon_hours: Count | None = Field(None, description="How far the forecast looks ahead, in hours.")
    fullest_percent: Count | None = Field(None, description="Fill of the fullest disk then, in per cent.")
    first_full_at: Time | None = Field(None, description="When the first disk would be full.")
    first_full_disk: Path | None = Field(None, description="Which disk that is: <broker id>:<log dir>.")


class KafkaRebalanceSpec(ApiModel):
    """The proposal."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.approved) || self.approved == self.inputHash",
                "approved must be the inputHash of this proposal, which says what was looked at: copy spec.inputHash, "
                "or remove approved to withdraw it",
                field=".approved",
            ),
            *_frozen_presence("forecast", "gain", "leaders", "estimatedMinutes"),
        )
    )

    cluster: ShortText = Field(description="Name of the KafkaCluster.", json_schema_extra=_frozen())
    input_hash: Digits = Field(
        description="Hash of the state that the plan was made from.", json_schema_extra=_frozen(_IS_HASH)
    )
    expires: Time = Field(
        description="A proposal that was not begun by then is not carried out any more.",
        json_schema_extra=_frozen(),
    )
    forecast: ProposalForecast | None = Field(
        None, description="What would come without the moves.", json_schema_extra=_frozen()
    )
    moves: list[ProposedMove] = Field(
        description="The moves, in order. A larger plan is made of successive proposals.",
        json_schema_extra=atomic(most=MAX_MOVES, **_frozen()),
    )
    leaders: list[Lead] | None = Field(
        None,
        description="Partitions that are to have another preferred leader, for good, once their moves are done.",
        json_schema_extra=atomic(most=MAX_MOVES, **_frozen()),
    )
    estimated_minutes: Count | None = Field(
        None,
        description="How long it should take within the cluster's limits, in minutes.",
        json_schema_extra=_frozen(),
    )
    cost: Cost = Field(default_factory=Cost, description="What the moves cost.", json_schema_extra=_frozen())
    gain: Gain = Field(
        default_factory=Gain, description="What the moves are good for.", json_schema_extra=_frozen()
    )
    approved: Digits | None = Field(
        None,
        description="Set by a person to the value of inputHash: carry this proposal out.",
    )
    stop: bool = Field(
        False,
        description="Set by a person: begin nothing more of this proposal, for good.",
        json_schema_extra=rules(
            rule(
                "!oldSelf || self",
                "a proposal that was stopped stays so: have a new one made (spindle rebalance run)",
            )
        ),
    )


class Dropped(ApiModel):
    """A move that was left out, and why."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    reason: ShortText = Field("", description="One word in CamelCase.")
    message: Sentence = Field("", description="Why it was left out, as a sentence; for the first 200.")


class KafkaRebalanceStatus(ApiModel):
    """How far the proposal is."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status is about.",
        json_schema_extra={"format": "int64"},
    )
    phase: ShortText | None = Field(
        None,
        description="Proposed, Approved, Executing, Done, Stopped, Expired, Superseded or Failed.",
    )
    reason: ShortText | None = Field(
        None, description="Why it is in this phase, or what it waits for: one word."
    )
    message: Sentence | None = Field(None, description="The same as a sentence.")
    approved_by: ShortText | None = Field(
        None, description="Who had approved it when it was begun: person or rule."
    )
    conditions: list[Condition] = conditions_field()
    moved_bytes: Bytes | None = Field(None, description="Bytes moved so far.")
    moved_moves: Count | None = Field(None, description="Moves finished so far.")
    progress: ShortText | None = Field(None, description="Finished moves of all moves: 12/340.")
    eta: Time | None = Field(
        None, description="When it should be done, at the rate of the moves so far; none while it waits."
    )
    started_at: Time | None = Field(None, description="When it was begun.")
    progressed_at: Time | None = Field(
        None, description="When a move last began or ended, or it went on after a time in which none could."
    )
    ran_seconds: Count | None = Field(
        None,
        description="Seconds for which it has been carried out, without those in which no window was open or nobody looked.",
    )
    updated_at: Time | None = Field(None, description="When this status was last written.")
    ended_at: Time | None = Field(None, description="When it ended.")
    outcomes: Annotated[str, Field(json_schema_extra=longest(MAX_MOVES))] | None = Field(
        None,
        description="A letter for each move, in order: . waits, > is in motion, + is done, - was left out.",
    )
    dropped: list[Dropped] = Field(
        default_factory=list,
        description="Moves that were left out when they were checked again, and why.",
        json_schema_extra=atomic(most=MAX_MOVES),
    )


class KafkaRebalance(ApiModel):
    """A proposal to move replicas between disks, brokers and racks."""

    api_version: str = API_VERSION
    kind: str = "KafkaRebalance"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaRebalanceSpec = Field(description="The proposal.")
    status: KafkaRebalanceStatus | None = Field(None, description="How far it is, written by Spindle.")
