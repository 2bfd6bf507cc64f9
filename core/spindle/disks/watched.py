"""Whether an agent looks at a disk, and if not, why: for the status of a KafkaBroker."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.model.agents import NO_AGENT
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState

_FIELDS: Final = ("watched", "watchedMessage")


def watched_fields(
    state: ClusterState, broker: SnapshotObject, disk: str, before: Mapping[str, Any]
) -> dict[str, Any]:
    """``watched`` and ``watchedMessage`` of a disk with a volume.

    Args:
        state: of the pass.
        broker: the KafkaBroker.
        disk: name of the disk.
        before: its entry in the status so far, which stands while nothing is known: an operator that has just started has not heard of any agent.
    """
    if not state.snap.agent_namespace:
        return _not("No agents are installed.")
    observed = (broker.get("status") or {}).get("observed") or {}
    node = str(broker["spec"].get("node") or "")
    agent = state.snap.agents.get(node, NO_AGENT)
    if "leases" in state.snap.unknown or not (agent.alive or agent.silent):
        return {key: before[key] for key in _FIELDS if key in before}
    if agent.silent:
        return _not(f"No agent on node {node or '(none)'} reports.")
    if observed.get("node") != node:
        return _not(f"The agent on node {node} has not reported on this broker yet.")
    if any(entry.get("name") == disk for entry in observed.get("disks") or ()):
        return {"watched": True}
    told = {entry.get("name"): entry.get("message") for entry in observed.get("unwatched") or ()}
    return _not(str(told.get(disk) or f"The agent on node {node} has not reported on it yet."))


def _not(why: str) -> dict[str, Any]:
    return {"watched": False, "watchedMessage": why}
