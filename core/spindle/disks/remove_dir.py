"""Whether a broker may run without a dir: "no log dir removed with replicas on it" (`docs/safety.md`, rule 5)."""

from collections.abc import Collection

from spindle.model.replica_index import Key, ReplicaIndex, names_of
from spindle.model.waiting import Waiting, counted, some


def may_remove_dir(
    replica_index: ReplicaIndex,
    broker: int,
    path: str,
    given_up: Collection[Key] = (),
    owed: Collection[Key] = (),
) -> Waiting | None:
    """Whether a dir may be removed from a broker's ``log.dirs``: None for yes.

    Args:
        replica_index: the current state of Kafka.
        broker: the broker of the dir.
        path: of the dir.
        given_up: replicas without another copy whose loss the user accepted: they do not hold back the removal.
        owed: partitions with a move to this dir in progress.
    """
    standing = replica_index.on(broker, path)
    if standing is None:
        return Waiting.refused(
            rule=5,
            reason="LogDirsUnknown",
            message=f"Spindle does not know which replicas are on {path} of broker {broker}, because the broker does not answer.",
            unblocked_by=f"Spindle continues when broker {broker} answers again. If it is not restarting, make sure that Kafka runs there and that the operator "
            "can reach it.",
        )
    left = (standing | frozenset(owed)) - frozenset(given_up)
    if not left:
        return None
    return Waiting.refused(
        rule=5,
        reason="ReplicasOnDisk",
        message=f"{counted(len(left), 'replica')} still {'belongs' if len(left) == 1 else 'belong'} on {path} of broker {broker}: {some(names_of(left))}.",
        unblocked_by="Nothing to do: Spindle continues when they have been moved to other disks or dropped from their assignments.",
        objects=tuple(names_of(left)),
    )
