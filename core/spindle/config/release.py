"""The Kafka release that new pods run."""

from spindle.api import names
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.versions import LEVELS, may_change, order


def version_to_run(state: ClusterState) -> str:
    """The release for new pods: the spec's, or the running one where the cluster must not change to the spec's."""
    running = running_release(state)
    if running is None or may_change(running, state.spec.version, feature_level(state)) is None:
        return state.spec.version
    return running


def feature_level(state: ClusterState) -> int | None:
    """The cluster's metadata.version as a feature level; while Kafka does not answer, the last known one, since it never falls."""
    level = state.kafka.metadata_version
    return level if level is not None else LEVELS.get(str(state.status.get("metadataVersion")))


def version_of(pod: SnapshotObject) -> str | None:
    """The release that a pod was created with; None for a pod without the annotation."""
    return objects.annotation(pod, names.ANN_VERSION)


def running_release(state: ClusterState) -> str | None:
    """The latest release that a node runs, by its pod; by the status where no pod has the annotation."""
    versions = {version for pod in state.pods.values() if (version := version_of(pod)) is not None}
    if not versions and state.known_identity is not None and (before := state.status.get("version")):
        versions = {str(before)}
    return max(versions, key=order, default=None)
