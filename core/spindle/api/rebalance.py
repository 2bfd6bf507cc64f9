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
from spindle.api.names import API_VERSION

MAX_MOVES = 2000

_FROZEN = "a proposal cannot be changed except for approved and stop: delete it and create a new one (spindle rebalance run)"
_IS_HASH = rule(
    "self.matches('^[0-9a-f]{8,128}$')",
    "this is not a hash: a hash has 8 to 128 hexadecimal digits; copy spec.inputHash unchanged",
)

Digits = Annotated[str, Field(json_schema_extra=longest(128))]


def _frozen(*more: dict[str, str]) -> dict[str, Any]:
    return rules(*more, rule("self == oldSelf", _FROZEN))


def _frozen_presence(*fields: str) -> list[dict[str, str]]:
    """Optional fields are neither added nor removed (a rule on the field itself is checked only when its value changes)."""
    return [
        rule(f"has(self.{field}) == has(oldSelf.{field})", _FROZEN, field=f".{field}") for field in fields
    ]


class ProposedMove(ApiModel):
    """One replica to move to another broker or another disk."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    from_broker: Count = Field(description="Source broker.")
    from_dir: Path = Field(description="Source log dir.")
    to_broker: Count = Field(description="Target broker; the same as the source for a move between disks.")
    to_dir: Path = Field(description="Target log dir.")
    bytes: Bytes = Field(description="Size of the replica in bytes when the plan was computed.")
    wave: Count | None = Field(
        None,
        description="Moves of a wave start when all moves of earlier waves have ended. If unset, the move starts as soon as the limits "
        "allow it.",
    )
    reason: Annotated[str, Field(json_schema_extra=longest(256))] = Field(
        "", description="Why the replica is to be moved."
    )


class Lead(ApiModel):
    """A partition that gets a different preferred leader."""

    topic: TopicName = Field(description="Topic of the partition.")
    partition: Count = Field(description="Number of the partition.")
    broker: Count = Field(
        description="Broker that becomes its preferred leader once the partition's replicas have moved."
    )


class Cost(ApiModel):
    """Cost of the moves."""

    bytes_inter: Bytes = Field(0, description="Bytes copied over the network between brokers.")
    bytes_intra: Bytes = Field(0, description="Bytes copied between disks of one broker.")
    moves: Count = Field(0, description="Number of replicas that move.")


class Gain(ApiModel):
    """Benefit of the moves: figures before and after."""

    fullest_percent_before: Count | None = Field(
        None, description="Usage of the fullest disk before the moves, in per cent."
    )
    fullest_percent_after: Count | None = Field(
        None, description="Usage of the fullest disk after the moves, in per cent."
    )
    disks_out_of_band_before: Count | None = Field(
        None, description="Disks outside the balance band (too full or too empty) before the moves."
    )
    disks_out_of_band_after: Count | None = Field(
        None, description="Disks outside the balance band (too full or too empty) after the moves."
    )
    brokers_out_of_band_before: Count | None = Field(
        None, description="Brokers outside the balance band (too full or too empty) before the moves."
    )
    brokers_out_of_band_after: Count | None = Field(
        None, description="Brokers outside the balance band (too full or too empty) after the moves."
    )
    rack_violations_before: Count | None = Field(
        None, description="Partitions on too few racks before the moves."
    )
    rack_violations_after: Count | None = Field(
        None, description="Partitions on too few racks after the moves."
    )


class ProposalForecast(ApiModel):
    """Forecast without the moves."""

    horizon_hours: Count | None = Field(None, description="Horizon of the forecast in hours.")
    fullest_percent: Count | None = Field(
        None, description="Usage of the fullest disk at the horizon, in per cent."
    )
    first_full_at: Time | None = Field(None, description="When the first disk would be full.")
    first_full_disk: Path | None = Field(None, description="That disk: <broker id>:<log dir>.")


class KafkaRebalanceSpec(ApiModel):
    """The proposal."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.approved) || self.approved == self.inputHash",
                "approved must be the inputHash of this proposal, which identifies the state that it was computed from: copy "
                "spec.inputHash, or remove approved to withdraw the approval",
                field=".approved",
            ),
            *_frozen_presence("forecast", "gain", "leaders", "estimatedMinutes"),
        )
    )

    cluster: ShortText = Field(description="Name of the KafkaCluster.", json_schema_extra=_frozen())
    input_hash: Digits = Field(
        description="Hash of the state that the plan was computed from.", json_schema_extra=_frozen(_IS_HASH)
    )
    expires: Time = Field(
        description="A proposal that has not started by then is not carried out.",
        json_schema_extra=_frozen(),
    )
    forecast: ProposalForecast | None = Field(
        None, description="Forecast without the moves.", json_schema_extra=_frozen()
    )
    moves: list[ProposedMove] = Field(
        description="The moves, in order. A larger plan is split into successive proposals.",
        json_schema_extra=atomic(most=MAX_MOVES, **_frozen()),
    )
    leaders: list[Lead] | None = Field(
        None,
        description="Partitions that permanently get a different preferred leader once their moves are done.",
        json_schema_extra=atomic(most=MAX_MOVES, **_frozen()),
    )
    estimated_minutes: Count | None = Field(
        None,
        description="Estimated duration within the cluster's limits, in minutes.",
        json_schema_extra=_frozen(),
    )
    cost: Cost = Field(default_factory=Cost, description="Cost of the moves.", json_schema_extra=_frozen())
    gain: Gain = Field(default_factory=Gain, description="Benefit of the moves.", json_schema_extra=_frozen())
    approved: Digits | None = Field(
        None,
        description="Set by the user to the value of inputHash to approve this proposal.",
    )
    stop: bool = Field(
        False,
        description="Set by the user: start no more moves of this proposal. It cannot be undone.",
        json_schema_extra=rules(
            rule(
                "!oldSelf || self",
                "a stopped proposal cannot be resumed: create a new one (spindle rebalance run)",
            )
        ),
    )


class Dropped(ApiModel):
    """A move that was skipped, and why."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    reason: ShortText = Field("", description="Reason in CamelCase.")
    message: Sentence = Field("", description="Why the move was skipped; only for the first 100.")


class KafkaRebalanceStatus(ApiModel):
    """Progress of the proposal."""

    observed_generation: int | None = Field(
        None,
        description="Generation of the spec that this status describes.",
        json_schema_extra={"format": "int64"},
    )
    phase: ShortText | None = Field(
        None,
        description="Proposed, Approved, Executing, Done, Stopped, Expired, Superseded or Failed.",
    )
    reason: ShortText | None = Field(
        None, description="Reason for the phase, or what the proposal waits for, in CamelCase."
    )
    message: Sentence | None = Field(None, description="Explanation of the phase or the wait.")
    approved_by: ShortText | None = Field(
        None,
        description="Who approved the proposal before it started: person (a user) or rule (automatically).",
    )
    conditions: list[Condition] = conditions_field()
    moved_bytes: Bytes | None = Field(None, description="Bytes moved so far.")
    moved_moves: Count | None = Field(None, description="Moves completed so far.")
    progress: ShortText | None = Field(None, description="Completed moves / all moves: 12/340.")
    eta: Time | None = Field(None, description="Expected end at the rate so far; omitted while it waits.")
    started_at: Time | None = Field(None, description="When it was started.")
    progressed_at: Time | None = Field(
        None,
        description="When a move last started or ended, or when the proposal resumed after a time in which no move was possible.",
    )
    ran_seconds: Count | None = Field(
        None,
        description="Seconds for which it has been carried out, excluding time outside of windows and time in which the operator did not "
        "run.",
    )
    updated_at: Time | None = Field(None, description="When this status was last written.")
    ended_at: Time | None = Field(None, description="When it ended.")
    outcomes: Annotated[str, Field(json_schema_extra=longest(MAX_MOVES))] | None = Field(
        None,
        description="One character per move, in order: . waiting, > in progress, + done, - skipped.",
    )
    dropped: list[Dropped] = Field(
        default_factory=list,
        description="Moves that were skipped when they were checked again, and why.",
        json_schema_extra=atomic(most=MAX_MOVES),
    )


class KafkaRebalance(ApiModel):
    """A proposal to move replicas between disks, brokers and racks."""

    api_version: str = API_VERSION
    kind: str = "KafkaRebalance"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaRebalanceSpec = Field(description="The proposal.")
    status: KafkaRebalanceStatus | None = Field(
        None, description="Progress of the proposal, written by Spindle."
    )
