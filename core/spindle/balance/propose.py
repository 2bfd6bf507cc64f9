"""Plans, and cuts the plan to the size of one proposal, with its cost and gain.

Planning is done twice: the first plan gives the duration, the second one uses the sizes that replicas will have
after that time.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

import numpy as np

from spindle.api.rebalance import (
    MAX_MOVES,
    Cost,
    Gain,
    KafkaRebalanceSpec,
    Lead,
    ProposalForecast,
    ProposedMove,
)
from spindle.api.reported_text import clipped
from spindle.balance.history import ReplicaHistory, rounded, with_history
from spindle.balance.picture import Picture
from spindle.balance.reading import Reading
from spindle.model.waiting import counted
from spindle.planner.explain import explain, human
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.rounding import short_partitions
from spindle.planner.snapshot import FloatArray, IntArray, PlannerSnapshot
from spindle.planner.state import PlanState

PROPOSED: Final = "Proposed"
BALANCED: Final = "Balanced"
NO_PLAN: Final = "NoPlan"
UNDER_WAY: Final = "ProposalUnderWay"

_HASHED: Final = 1  # version of the hash's input; incremented when that changes
MOST_BYTES: Final = 600_000  # bytes of moves and leaders as JSON: with the status, in which each move may be dropped, it has less than 1 MB
_LEADERS: Final = 0.25  # maximum share of that
_LONGEST: Final = 256  # characters of a reason
_HORIZON_H: Final = 168
NEVER_S: Final = 730.0 * 86400  # a disk that is full later than this counts as never full


@dataclass(frozen=True)
class NewProposal:
    """One KafkaRebalance.

    Attributes:
        plan: the part of the plan that it holds.
        left: number of moves left for later proposals.
    """

    name: str
    spec: KafkaRebalanceSpec
    plan: PlacementPlan
    left: int = 0


@dataclass(frozen=True)
class Result:
    """Result of planning.

    Attributes:
        reason: one of the reasons above.
        message: the same as a sentence.
        plan: the whole plan, if one was made; empty if there is nothing to do.
    """

    reason: str
    message: str
    proposal: NewProposal | None = None
    plan: PlacementPlan | None = None


def propose(
    picture: Picture, reading: Reading, history: ReplicaHistory, tell: Callable[[str], None] = lambda _: None
) -> Result:
    """Plan, and make a proposal from the plan.

    Args:
        picture: the cluster's state.
        reading: result of :func:`spindle.balance.reading.read`.
        history: results of the samples; may be empty.
        tell: called with the current step.
    """
    if reading.snapshot is None:
        return Result(NO_PLAN, f"No plan is possible: {reading.refusal}.")
    if picture.under_way:
        return held_by(picture.under_way)
    found = _planned(reading, reading.snapshot, history, tell)
    if not len(found.replica) and not len(found.leader):
        if found.unreached:
            return Result(NO_PLAN, f"No replica can be moved: {'; '.join(found.unreached)}.", plan=found)
        return Result(
            BALANCED, "Every disk and every broker is within its band; there is nothing to do.", plan=found
        )
    proposal = _proposal(picture, reading, history, found)
    return Result(PROPOSED, _sentence(proposal), proposal, found)


def held_by(name: str, found: PlacementPlan | None = None) -> Result:
    """No proposal while this KafkaRebalance is approved and not finished; ``found`` is the plan made nevertheless."""
    return Result(
        UNDER_WAY,
        f"KafkaRebalance {name} is approved and not finished yet: the next proposal is planned on its result.",
        plan=found,
    )


def _planned(
    reading: Reading, snapshot: PlannerSnapshot, history: ReplicaHistory, tell: Callable[[str], None]
) -> PlacementPlan:
    now = with_history(snapshot, history, 0.0)
    first = plan(now, reading.goals, reading.budget, tell)
    seconds = float(rounded(first.seconds(reading.budget)))
    then = with_history(snapshot, history, seconds)
    if np.array_equal(then.planned, now.planned):
        return first
    tell(f"planning again with the sizes expected in {seconds:.0f} s, at the end of the first plan")
    return plan(then, reading.goals, reading.budget, tell)


def _proposal(
    picture: Picture, reading: Reading, history: ReplicaHistory, found: PlacementPlan
) -> NewProposal:
    digest = input_hash(picture, reading, history, found)
    room = _bytes(_leaders(found, int(_LEADERS * MOST_BYTES)))
    moves = _moves(found, MOST_BYTES - room)
    part = _beginning(found, len(moves))
    seconds = part.seconds(reading.budget)
    lifetime = picture.policy.rebalance.lifetime_minutes
    spec = KafkaRebalanceSpec(
        cluster=picture.cluster,
        input_hash=digest,
        expires=_stamp(picture.at_ms / 1000 + 60 * lifetime),
        forecast=_forecast(picture, history, found.problem.snapshot),
        moves=moves,
        leaders=_leaders(part, room) or None,
        estimated_minutes=int(-(-seconds // 60)),
        cost=Cost(
            bytes_inter=int(part.bytes_inter), bytes_intra=int(part.bytes_intra), moves=len(part.replica)
        ),
        gain=_gain(part),
    )
    name = f"{picture.cluster}-{digest[:10]}"
    return NewProposal(name, spec, part, len(found.replica) - len(moves))


def input_hash(picture: Picture, reading: Reading, history: ReplicaHistory, found: PlacementPlan) -> str:
    """SHA-256 over the proposal's input: cluster, snapshot, goals, budget, and the facts about disks.

    The time is left out, so that two runs with the same input make one proposal.
    """
    disks = [
        [*d.place, *rounded([d.growth or 0.0, *(d.full_in or ())]).tolist()]
        for d in sorted(history.disks, key=lambda d: d.place)
    ]
    document = {
        "version": _HASHED,
        "cluster": [picture.namespace, picture.cluster, picture.kafka.cluster_id],
        "snapshot": found.digest,
        "goals": asdict(reading.goals),
        "budget": asdict(reading.budget),
        "disks": disks,
        "slow": sorted(map(list, reading.slow)),
    }
    return sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _bytes(made: Sequence[ProposedMove | Lead]) -> int:
    return sum(len(json.dumps(each.to_dict(), separators=(",", ":")).encode()) + 1 for each in made)


def _moves(found: PlacementPlan, room: int) -> list[ProposedMove]:
    """As many moves from the start of the plan as fit into one proposal; every prefix of a plan is valid."""
    s, made, size = found.problem.snapshot, list[ProposedMove](), 0
    for k in range(min(len(found.replica), MAX_MOVES)):
        r, i, j = int(found.replica[k]), int(found.source[k]), int(found.target[k])
        line = explain(found, k)
        move = ProposedMove(
            topic=s.topic_name(r),
            partition=int(s.partition[r]),
            from_broker=int(s.broker[s.dir_broker[i]]),
            from_dir=s.dir_name[i],
            to_broker=int(s.broker[s.dir_broker[j]]),
            to_dir=s.dir_name[j],
            bytes=int(s.size[r]),
            wave=int(found.wave[k]),
            reason=clipped(f"{line.reason}: {line.why}", _LONGEST),
        )
        size += _bytes([move])
        if size > room:
            break
        made.append(move)
    return made


def _beginning(found: PlacementPlan, count: int) -> PlacementPlan:
    """The plan cut after ``count`` moves; leaders of partitions with later moves are left to later proposals."""
    if count == len(found.replica):
        return found
    s = found.problem.snapshot
    waves = int(found.wave[:count].max(initial=-1)) + 1
    later = np.isin(s.part[found.leader], s.part[found.replica[count:]])
    return replace(
        found,
        wave=found.wave[:count],
        replica=found.replica[:count],
        source=found.source[:count],
        target=found.target[:count],
        reason=found.reason[:count],
        peak=found.peak[:waves],
        points=found.points[: waves + 1],
        leader=found.leader[~later],
        dropped=found.dropped + len(found.replica) - count,
    )


def _leaders(part: PlacementPlan, room: int) -> list[Lead]:
    """As many leader changes as fit; a later run chooses the others."""
    s, made, size = part.problem.snapshot, list[Lead](), 0
    where = s.dir.copy()
    where[part.replica] = part.target
    for r in part.leader[:MAX_MOVES].tolist():
        broker = int(s.broker[s.dir_broker[where[r]]])
        lead = Lead(topic=s.topic_name(r), partition=int(s.partition[r]), broker=broker)
        size += _bytes([lead])
        if size > room:
            break
        made.append(lead)
    return made


def _gain(part: PlacementPlan) -> Gain:
    p, s = part.problem, part.problem.snapshot
    where = s.dir.copy()
    where[part.replica] = part.target
    (dirs, brokers), (dirs_after, brokers_after) = p.outside(s.used), p.outside(part.after)
    return Gain(
        fullest_percent_before=_fullest(part, s.used),
        fullest_percent_after=_fullest(part, part.after),
        disks_out_of_band_before=dirs,
        disks_out_of_band_after=dirs_after,
        brokers_out_of_band_before=brokers,
        brokers_out_of_band_after=brokers_after,
        rack_violations_before=len(short_partitions(PlanState(p))),
        rack_violations_after=len(short_partitions(PlanState(p, where))),
    )


def _fullest(part: PlacementPlan, used: FloatArray) -> int:
    usable = part.problem.usable
    return round(100 * float((used / part.problem.snapshot.capacity)[usable].max(initial=0.0)))


def _forecast(picture: Picture, history: ReplicaHistory, s: PlannerSnapshot) -> ProposalForecast | None:
    """The forecast without the moves; None if there is no forecast for any disk."""
    known = [d for d in history.disks if d.growth is not None]
    if not known:
        return None
    row = {(int(s.broker[b]), s.dir_name[d]): d for d, b in enumerate(s.dir_broker.tolist())}
    held: IntArray = np.bincount(s.dir, s.size, len(s.capacity)).astype(np.int64)
    fills = [
        (held[d] + float(rounded(each.growth or 0.0)) * _HORIZON_H * 3600) / s.capacity[d]
        for each in known
        if (d := row.get(each.place)) is not None
    ]
    full = [(float(rounded(d.full_in[1])), d.place) for d in known if d.full_in and d.full_in[1] <= NEVER_S]
    first = min(full, default=None)
    return ProposalForecast(
        horizon_hours=_HORIZON_H,
        fullest_percent=round(100 * min(1.0, max(fills))) if fills else None,
        first_full_at=None if first is None else _stamp(picture.at_ms / 1000 + first[0]),
        first_full_disk=None if first is None else f"{first[1][0]}:{first[1][1]}",
    )


def _sentence(proposal: NewProposal) -> str:
    part, gain = proposal.plan, proposal.spec.gain
    text = (
        f"{counted(len(part.replica), 'move')} of {human(float(part.bytes.sum()))} in {counted(len(part.peak), 'wave')}: "
        f"the fullest disk goes from {gain.fullest_percent_before} % to {gain.fullest_percent_after} %, disks out of their band "
        f"from {gain.disks_out_of_band_before} to {gain.disks_out_of_band_after}"
    )
    if proposal.spec.leaders:
        text += f"; {counted(len(proposal.spec.leaders), 'preferred leader')} change"
    if proposal.left:
        text += f"; {counted(proposal.left, 'move')} left for later proposals"
    return f"{text}."


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
