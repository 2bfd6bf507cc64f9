"""From one release of Kafka to another: all nodes first, metadata.version when they have run it for a while, back only before that."""

from dataclasses import replace
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.versions import LEVELS, level_of, may_change, order, release_of, unsupported
from spindle.cluster.waiting import Waiting
from spindle.reconcile import objects
from spindle.reconcile.actions import RaiseFeatures
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.times import seconds, stamp

_METADATA: Final = "metadata.version"
_HOUR: Final = 3600


def version_to_run(state: ClusterState) -> str:
    """The release that pods are made of: the spec's, or the one that runs where the cluster may not go to that."""
    running = _latest(state)
    if running is None or may_change(running, state.spec.version, _level(state)) is None:
        return state.spec.version
    return running


def as_run(state: ClusterState) -> ClusterState:
    """The state with the release in effect where this version of Spindle does not run the one that is asked for.

    The rest of the spec is carried out: disks that fail, certificates that expire do not wait for a correction. Where nothing runs yet, or what
    runs is not known here either, there is nothing to go on with, and the state is as it was.
    """
    refusal, running = unsupported(state.spec.version), _latest(state)
    if refusal is None or running is None or unsupported(running) is not None:
        return state
    stays = replace(
        refusal,
        message=f"{refusal.message} The cluster stays with Kafka {running}, and is looked after as ever.",
        unblocked_by=f"{refusal.unblocked_by.rstrip('.')}, or back to {running}.",
    )
    spec = state.spec.model_copy(update={"version": running})
    return replace(state, spec=spec, version_refused=stays)


def reconcile_upgrade(state: ClusterState, builder: PlanBuilder) -> None:
    """Say why the release is not changed; raise metadata.version once all nodes have run theirs for long enough."""
    running = _latest(state)
    refusal = state.version_refused
    if refusal is None and running is not None:
        refusal = may_change(running, state.spec.version, _level(state))
    if refusal is not None:
        # Nor is metadata.version raised: perhaps it is an earlier release that is asked for.
        builder.wait(Waiting.of("ChangeVersion", f"KafkaCluster/{state.name}", refusal))
        return
    level, now = level_of(state.spec.version), state.kafka.metadata_version
    since = _since(state)
    if level is None or now is None or now >= level or since is None or state.unavailable_records:
        return
    until = since + state.spec.rolling.soak_hours * _HOUR
    if state.now < until:
        builder.wait(_soaking(state, now, until))
    else:
        message = f"metadata.version is raised from {release_of(now)} to {release_of(level)}: there is no way back to an earlier release."
        builder.do(RaiseFeatures(levels={_METADATA: level}, reason="MetadataVersionRaised", message=message))


def version_status(state: ClusterState) -> dict[str, Any]:
    """``status.version``, ``versionSince`` and ``metadataVersion``; a version is there once all nodes run it."""
    found: dict[str, Any] = {}
    version = _common(state)
    if version is not None:
        same = (
            state.status.get("version") == version and seconds(state.status.get("versionSince")) is not None
        )
        found = {
            "version": version,
            "versionSince": state.status["versionSince"] if same else stamp(state.now),
        }
    else:  # who is away for a moment does not begin the time anew; one that runs something else does
        kept = ("version",) if _mixed(state) else ("version", "versionSince")
        found = {key: state.status[key] for key in kept if state.status.get(key)}
    level = state.kafka.metadata_version
    if level is not None:
        found["metadataVersion"] = release_of(level)
    elif state.status.get("metadataVersion"):
        found["metadataVersion"] = state.status["metadataVersion"]
    return found


def _level(state: ClusterState) -> int | None:
    """The cluster's metadata.version; while Kafka does not tell, what it told before: it never falls."""
    told = state.kafka.metadata_version
    return told if told is not None else LEVELS.get(str(state.status.get("metadataVersion")))


def version_of(pod: SnapshotObject) -> str | None:
    """The release that a pod was made for; None for one that does not tell."""
    return objects.annotation(pod, names.ANN_VERSION)


def _latest(state: ClusterState) -> str | None:
    """The latest release that a node runs, by its pod; by the status where there is no pod that tells."""
    told = {version for pod in state.pods.values() if (version := version_of(pod)) is not None}
    if not told and state.known_identity is not None and (before := state.status.get("version")):
        told = {str(before)}
    return max(told, key=order, default=None)


def _mixed(state: ClusterState) -> bool:
    """Whether nodes run different releases or images at this moment."""
    run = {(version_of(pod), objects.image(pod, names.CONTAINER_KAFKA)) for pod in state.pods.values()}
    return len(run) > 1


def _common(state: ClusterState) -> str | None:
    """The release that every broker and controller runs; None while they differ, or one is not ready."""
    nodes = [*state.controller_ids, *state.brokers]
    stopped = {i for i, broker in state.brokers.items() if objects.kept_down(broker)}
    pods = [state.pods.get(node) for node in nodes if node not in stopped]
    told = {version_of(pod) if pod is not None and objects.is_true(pod, "Ready") else None for pod in pods}
    return told.pop() if len(told) == 1 else None


def _since(state: ClusterState) -> float | None:
    """Since when all nodes run the spec's release; None if they do not, or that is not on record yet."""
    version = _common(state)
    if version != state.spec.version or state.status.get("version") != version:
        return None
    return seconds(state.status.get("versionSince"))


def _soaking(state: ClusterState, level: int, until: float) -> Waiting:
    return Waiting(
        "RaiseMetadataVersion",
        f"KafkaCluster/{state.name}",
        "Soaking",
        f"All nodes run Kafka {state.spec.version}. metadata.version stays at {release_of(level)} until {stamp(until)}; until then "
        f"spec.version may go back to {release_of(level)}.",
        "The time passes (spec.rolling.soakHours).",
        quiet=True,
    )
