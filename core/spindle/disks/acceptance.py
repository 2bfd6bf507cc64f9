"""Last copies on a dead disk: what is lost with it, and what follows when the user accepts that loss by name.

What still exists of a partition comes first: a surviving replica is elected leader uncleanly before anything empty is
created. A replica whose broker is merely down counts as a survivor to wait for. A partition restarts empty only if the
acceptances name the directory ids of all its replicas.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.api import names
from spindle.model.replica_index import Key, ReplicaIndex, names_of
from spindle.model.waiting import Waiting, counted, some

ANN_ACCEPTED: Final = f"{names.GROUP}/accepted-loss"
_DIGITS = 16


@dataclass(frozen=True)
class Loss:
    """Partitions whose only in-sync copy is on one bad disk.

    Attributes:
        directory_id: of that disk.
    """

    broker: int
    disk: str
    directory_id: str
    partitions: frozenset[Key]

    @property
    def text(self) -> str:
        """The token that the user writes in ``spec.acceptDataLoss.disks`` to accept exactly this loss."""
        return f"{self.directory_id}:{digest(self.partitions)}"


@dataclass(frozen=True)
class Accepted:
    """An acceptance whose token was valid, and its partitions; it stays with its KafkaBroker until it is used up.

    Attributes:
        text: the token.
        done: nothing of it is lost any more: it is used up, and the same token does not count again.
    """

    text: str
    partitions: frozenset[Key]
    done: bool = False


@dataclass(frozen=True)
class AcceptanceVerdict:
    """The actions that follow from acceptances.

    Attributes:
        elect: partitions for which a surviving replica is to be elected uncleanly.
        reorder: partition → its replicas in the order that is needed before that: Kafka elects the first eligible one, and a replica that
            is being added was never in sync.
        empty: replicas whose loss is accepted with no copy left, as (broker, partition).
        refusals: (loss, why it has to wait).
    """

    elect: frozenset[Key] = frozenset()
    reorder: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)
    empty: frozenset[tuple[int, Key]] = frozenset()
    refusals: tuple[tuple[Loss, Waiting], ...] = ()


def digest(keys: Iterable[Key]) -> str:
    """A short hash of partitions by name, independent of their order."""
    return hashlib.sha256("\n".join(names_of(keys)).encode()).hexdigest()[:_DIGITS]


def lost_with(replica_index: ReplicaIndex, broker: int, path: str) -> frozenset[Key] | None:
    """Partitions on one bad dir of which no other broker may hold an in-sync copy; None if that is not known.

    A partition whose ISR or ELR includes a broker that does not answer is not lost: it waits for that broker.
    """
    standing = replica_index.on(broker, path)
    if standing is None:
        return None
    return frozenset(
        key
        for key in standing
        if key in replica_index.partitions and not _elsewhere(replica_index, broker, key)
    )


def _elsewhere(replica_index: ReplicaIndex, broker: int, key: Key) -> bool:
    """Whether an in-sync copy is, or may be, on another broker."""
    partition = replica_index.partitions[key]
    return any(
        (lost := replica_index.lost(other)) is None or key not in lost
        for other in {*partition.isr, *(partition.elr or ())} - {broker}
    )


def accept(
    request: str | None,
    loss: Loss | None,
    before: Accepted | None,
    leaderless: Collection[Key] = (),
    *,
    well: bool = False,
) -> Accepted | None:
    """The acceptance of a disk to record now.

    It is used up when its partitions are served again. That no loss is observed for a moment (while the broker restarts, nothing reports its
    disk as bad) does not use it up. A token that is present while the disk is healthy, and of which no record exists, belongs to an earlier loss and
    is used up as well: the record may have been removed by hand, or deleted with the KafkaBroker.

    Args:
        request: the token as it is written now.
        loss: what is lost with the disk now; None if no loss is observed.
        before: the record so far.
        leaderless: partitions that have no leader now.
        well: whether the disk is certainly healthy and in use.
    """
    if request is None:
        return None
    if before is not None and before.text == request:
        over = (loss is None or not loss.partitions & before.partitions) and not (
            before.partitions & frozenset(leaderless)
        )
        return Accepted(request, before.partitions, done=before.done or over)
    if loss is None:
        return Accepted(request, frozenset(), done=True) if well else None
    return Accepted(request, loss.partitions) if loss.text == request else None


def resolve_losses(
    replica_index: ReplicaIndex, losses: Sequence[Loss], accepted: Mapping[str, Accepted]
) -> AcceptanceVerdict:
    """Decide what may be done about accepted losses.

    Args:
        replica_index: the current state of Kafka.
        losses: all current losses of all brokers: one for each dir that cannot be read.
        accepted: directory id → its recorded acceptance.
    """
    given, refusals = _accepted_replicas(losses, accepted)
    elect: set[Key] = set()
    reorder: dict[Key, tuple[int, ...]] = {}
    empty: set[tuple[int, Key]] = set()
    waiting: dict[str, tuple[Loss, set[Key]]] = {}
    for (broker, key), loss in given.items():
        partition = replica_index.partitions[key]
        others = [b for b in partition.replicas if b != broker and (b, key) not in given]
        survivors = [b for b in others if b not in partition.adding] or others
        if any(not replica_index.holds(b, key) for b in survivors):
            waiting.setdefault(loss.directory_id, (loss, set()))[1].add(key)
        elif survivors:
            best = max(survivors, key=lambda b: replica_index.size_on(b, key))  # the first of equal ones
            if others[0] == best:
                elect.add(key)
            else:
                made = [b for b in partition.replicas if b in partition.adding]
                reorder[key] = (best, *(b for b in partition.replicas if b not in (best, *made)), *made)
        else:
            empty.add((broker, key))
    refusals += [(loss, _survivors_away(replica_index, loss, keys)) for loss, keys in waiting.values()]
    return AcceptanceVerdict(frozenset(elect), reorder, frozenset(empty), tuple(refusals))


def _accepted_replicas(
    losses: Sequence[Loss], accepted: Mapping[str, Accepted]
) -> tuple[dict[tuple[int, Key], Loss], list[tuple[Loss, Waiting]]]:
    """Replicas whose loss is accepted, each with one loss that names it, and why others are not.

    Which of a broker's bad dirs holds a replica is unknown. So the loss of a replica is accepted only when each bad dir that may hold it is accepted
    by its own directory id: one of them may only be disconnected.
    """
    may_hold: dict[tuple[int, Key], list[Loss]] = {}
    for loss in losses:
        for key in loss.partitions:
            may_hold.setdefault((loss.broker, key), []).append(loss)
    given: dict[tuple[int, Key], Loss] = {}
    held_back: dict[str, tuple[Loss, set[Loss], set[Key]]] = {}
    for (broker, key), where in may_hold.items():
        found = [_valid_acceptance(loss, accepted) for loss in where]
        named = [loss for loss, one in zip(where, found, strict=True) if one and key in one.partitions]
        others = [loss for loss in where if loss not in named]
        if named and not others:
            given[broker, key] = named[0]
        elif named:
            _, others_of, keys = held_back.setdefault(named[0].directory_id, (named[0], set(), set()))
            others_of.update(others)
            keys.add(key)
    return given, [(loss, _also_on(loss, others, keys)) for loss, others, keys in held_back.values()]


def _valid_acceptance(loss: Loss, accepted: Mapping[str, Accepted]) -> Accepted | None:
    """The acceptance of a loss that is valid now."""
    found = accepted.get(loss.directory_id)
    return found if found is not None and not found.done else None


def render(accepted: Mapping[str, Accepted]) -> str:
    """Acceptances by disk as the text of an annotation."""
    return json.dumps(
        {
            disk: {"text": a.text, "partitions": sorted([t, p] for t, p in a.partitions), "done": a.done}
            for disk, a in sorted(accepted.items())
        },
        separators=(",", ":"),
    )


def parse(text: str | None) -> dict[str, Accepted]:
    """Parse what `render` wrote; invalid text counts as no acceptance."""
    try:
        return {
            str(disk): Accepted(
                str(entry["text"]),
                frozenset((str(t), int(p)) for t, p in entry["partitions"]),
                bool(entry["done"]),
            )
            for disk, entry in json.loads(text or "{}").items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _also_on(loss: Loss, others: Collection[Loss], keys: Collection[Key]) -> Waiting:
    disks = sorted(other.disk for other in others)
    return Waiting.refused(
        rule=1,
        reason="OtherDiskMayHoldReplica",
        message=f"The loss of {loss.disk} of broker {loss.broker} is accepted, but {counted(len(keys), 'partition')} may be on {some(disks)} of "
        f"the same broker instead, which cannot be read either: {some(names_of(keys))}.",
        unblocked_by=f"Bring {some(disks)} back; or, if {'it is' if len(disks) == 1 else 'they are'} lost too, accept that loss as well in "
        "spec.acceptDataLoss.disks of the KafkaBroker: "
        + "; ".join(f"{other.disk} {other.text}" for other in sorted(others, key=lambda o: o.disk)),
        objects=tuple(names_of(keys)),
    )


def _survivors_away(replica_index: ReplicaIndex, loss: Loss, keys: Collection[Key]) -> Waiting:
    away = sorted(
        {
            b
            for key in keys
            for b in replica_index.partitions[key].replicas
            if b != loss.broker and not replica_index.holds(b, key)
        }
    )
    brokers = f"broker{'' if len(away) == 1 else 's'} {some([str(b) for b in away])}"
    return Waiting.refused(
        rule=1,
        reason="SurvivorsUnavailable",
        message=f"The loss of {loss.disk} of broker {loss.broker} is accepted, but {counted(len(keys), 'partition')} may have a copy on "
        f"{brokers}, which {'is' if len(away) == 1 else 'are'} not available: {some(names_of(keys))}.",
        unblocked_by=f"Bring {brokers} back; or, if {'its' if len(away) == 1 else 'their'} disks are lost too, accept that loss as well.",
        objects=tuple(names_of(keys)),
    )
