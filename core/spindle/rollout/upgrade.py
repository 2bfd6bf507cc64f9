"""Kafka upgrades: all nodes first, then metadata.version after a soak time; a downgrade is possible only before that."""

from dataclasses import replace
from typing import Any, Final

from spindle.api import names
from spindle.config.release import feature_level, running_release, version_of
from spindle.model import objects
from spindle.model.actions import RaiseFeatures
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.model.versions import level_of, may_change, release_of, unsupported
from spindle.model.waiting import Waiting

_METADATA: Final = "metadata.version"
_HOUR: Final = 3600


def as_run(state: ClusterState) -> ClusterState:
    """The state with the running release in place of a ``spec.version`` that this version of Spindle does not support.

    The rest of the spec is applied: failing disks and expiring certificates do not wait for a correction. If nothing runs yet, or the
    running release is not supported either, the state is unchanged.
    """
    refusal, running = unsupported(state.spec.version), running_release(state)
    if refusal is None or running is None or unsupported(running) is not None:
        return state
    stays = replace(
        refusal,
        message=f"{refusal.message} The cluster stays on Kafka {running}, and Spindle manages it as usual.",
        unblocked_by=f"{refusal.unblocked_by.rstrip('.')}, or back to {running}.",
    )
    spec = state.spec.model_copy(update={"version": running})
    return replace(state, spec=spec, version_refused=stays)


def reconcile_upgrade(state: ClusterState, builder: PlanBuilder) -> None:
    """Report why the release is not changed; raise metadata.version once all nodes have run the release for the soak time."""
    running = running_release(state)
    refusal = state.version_refused
    if refusal is None and running is not None:
        refusal = may_change(running, state.spec.version, feature_level(state))
    if refusal is not None:
        # metadata.version is not raised either: the spec may ask for an earlier release.
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
        message = f"Raised metadata.version from {release_of(now)} to {release_of(level)}: a downgrade to an earlier release is no longer possible."
        builder.do(RaiseFeatures(levels={_METADATA: level}, reason="MetadataVersionRaised", message=message))


def version_status(state: ClusterState) -> dict[str, Any]:
    """``status.version``, ``versionSince`` and ``metadataVersion``; a version is set once all nodes run it."""
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
    else:  # a node that is briefly down does not reset the soak time; one that runs another release does
        kept = ("version",) if _mixed(state) else ("version", "versionSince")
        found = {key: state.status[key] for key in kept if state.status.get(key)}
    level = state.kafka.metadata_version
    if level is not None:
        found["metadataVersion"] = release_of(level)
    elif state.status.get("metadataVersion"):
        found["metadataVersion"] = state.status["metadataVersion"]
    return found


def _mixed(state: ClusterState) -> bool:
    """Whether nodes run different releases or images at this moment."""
    run = {(version_of(pod), objects.image(pod, names.CONTAINER_KAFKA)) for pod in state.pods.values()}
    return len(run) > 1


def _common(state: ClusterState) -> str | None:
    """The release that every broker and controller runs; None while they differ, or one is not ready."""
    nodes = [*state.controller_ids, *state.brokers]
    stopped = {i for i, broker in state.brokers.items() if objects.kept_down(broker)}
    pods = [state.pods.get(node) for node in nodes if node not in stopped]
    found = {version_of(pod) if pod is not None and objects.is_true(pod, "Ready") else None for pod in pods}
    return found.pop() if len(found) == 1 else None


def _since(state: ClusterState) -> float | None:
    """Since when all nodes run the spec's release, in seconds since the epoch; None if they do not, or it is not recorded yet."""
    version = _common(state)
    if version != state.spec.version or state.status.get("version") != version:
        return None
    return seconds(state.status.get("versionSince"))


def _soaking(state: ClusterState, level: int, until: float) -> Waiting:
    return Waiting(
        "RaiseMetadataVersion",
        f"KafkaCluster/{state.name}",
        "Soaking",
        f"All nodes run Kafka {state.spec.version}. metadata.version stays at {release_of(level)} until {stamp(until)}; until then you can "
        f"set spec.version back to {release_of(level)}.",
        f"Nothing to do: Spindle raises metadata.version at {stamp(until)} (spec.rolling.soakHours).",
        quiet=True,
    )
