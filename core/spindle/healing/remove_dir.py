"""Rule 5's other half: a broker may run without a dir only when no replica stands there."""

from collections.abc import Collection

from spindle.cluster.waiting import Waiting, counted, some
from spindle.healing.replica_index import Key, ReplicaIndex, names_of


def may_remove_dir(
    replica_index: ReplicaIndex,
    broker: int,
    path: str,
    given_up: Collection[Key] = (),
    owed: Collection[Key] = (),
) -> Waiting | None:
    """Whether a dir may leave a broker's ``log.dirs``: None for yes.

    Args:
        replica_index: what Kafka says now.
        broker: whose dir it is.
        path: of the dir.
        given_up: replicas whose loss a person accepted, with no other copy anywhere: nothing is waited for there.
        owed: partitions of which a move to this dir is under way.
    """
    standing = replica_index.on(broker, path)
    if standing is None:
        return Waiting.refused(
            rule=5,
            reason="LogDirsUnknown",
            message=f"Broker {broker} cannot be asked what stands on {path}.",
            unblocked_by=f"Broker {broker} answers again.",
        )
    left = (standing | frozenset(owed)) - frozenset(given_up)
    if not left:
        return None
    return Waiting.refused(
        rule=5,
        reason="ReplicasOnDisk",
        message=f"{counted(len(left), 'replica')} still belongs on {path} of broker {broker}: {some(names_of(left))}.",
        unblocked_by="They are moved to other disks, or leave their assignments.",
        objects=tuple(names_of(left)),
    )
