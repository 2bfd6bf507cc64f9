"""Kafka's state after the moves in progress have completed: plans are based on it, so that nothing is moved twice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.view import KafkaView, LogDir, Partition
from spindle.moves.journal import Move


def after_moves(view: KafkaView, moves: Sequence[Move]) -> KafkaView:
    """A view in which these moves are completed: replicas that Spindle is moving are on their target, and may stay there."""
    if not moves or view.brokers is None or view.partitions is None:
        return view
    by_key = {move.key: move for move in moves}
    replica_index = ReplicaIndex(view)
    brokers = {
        broker_id: broker
        if broker.log_dirs is None
        else replace(
            broker, log_dirs=tuple(_landed(broker_id, d, by_key, replica_index) for d in broker.log_dirs)
        )
        for broker_id, broker in view.brokers.items()
    }
    partitions = tuple(_assigned(p, by_key.get((p.topic, p.index))) for p in view.partitions)
    return replace(view, brokers=brokers, partitions=partitions)


def _landed(broker: int, log_dir: LogDir, moves: Mapping[Key, Move], replica_index: ReplicaIndex) -> LogDir:
    stay = {
        key: size
        for key, size in log_dir.replicas.items()
        if key not in moves or broker not in (moves[key].source, moves[key].target)
    }
    come = {
        key: max(move.bytes, replica_index.size(key))
        for key, move in moves.items()
        if (move.target, move.to_dir) == (broker, log_dir.path)
    }
    futures = {key: size for key, size in log_dir.futures.items() if key not in moves}
    return replace(log_dir, replicas={**stay, **come}, futures=futures)


def _assigned(partition: Partition, move: Move | None) -> Partition:
    if move is None:
        return partition
    kept = [b for b in partition.replicas if b not in (move.source, move.target)]
    return replace(partition, replicas=(*kept, move.target), adding=(), removing=())
