"""How full a log dir may get by moves: the thresholds of its pool."""

from spindle.api.thresholds import UsageLevel
from spindle.model.bounds import disk_bounds
from spindle.model.state import ClusterState


def ceilings(state: ClusterState) -> dict[tuple[int, str], float]:
    """The share of each dir (broker, path) above which no replica may move in, where it differs from the cluster's."""
    usual = state.spec.disks.thresholds.reject_moves / 100
    found = {}
    for broker_id, broker in (state.kafka.brokers or {}).items():
        if broker_id not in state.brokers:
            continue
        marks = state.thresholds_of(broker_id)
        for log_dir in broker.log_dirs or ():
            if log_dir.total_bytes and (
                marks.free.reject_moves is not None or marks.reject_moves / 100 != usual
            ):
                level = disk_bounds(log_dir.total_bytes, marks).at(UsageLevel.REJECT_MOVES)
                found[broker_id, log_dir.path] = level.enter / log_dir.total_bytes
    return found
