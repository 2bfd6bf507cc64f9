"""Readers of raw Kubernetes objects."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.reported_text import clipped
from spindle.model import maintenance

RawObject = Mapping[str, Any]

_NOTHING: Final[RawObject] = {}
_LONGEST_REASON: Final = 63  # of an entry in status.waiting
_LONGEST_MESSAGE: Final = 4096  # of a terminated container (kubelet, maxMessageSize)


def name(obj: RawObject) -> str:
    """``metadata.name``."""
    return str(obj["metadata"]["name"])


def uid(obj: RawObject) -> str:
    """``metadata.uid``."""
    return str(obj["metadata"].get("uid", ""))


def version(obj: RawObject) -> str:
    """``metadata.resourceVersion``."""
    return str(obj["metadata"].get("resourceVersion", ""))


def annotation(obj: RawObject, key: str) -> str | None:
    """One annotation, None if absent."""
    value = (obj["metadata"].get("annotations") or _NOTHING).get(key)
    return None if value is None else str(value)


def annotations(obj: RawObject) -> Mapping[str, str]:
    """``metadata.annotations``, never None."""
    return obj["metadata"].get("annotations") or _NOTHING


def labels(obj: RawObject) -> Mapping[str, str]:
    """``metadata.labels``, never None."""
    return obj["metadata"].get("labels") or {}


def deleting(obj: RawObject) -> bool:
    """Whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def by_name(objects: Iterable[RawObject]) -> dict[str, RawObject]:
    """Index by name."""
    return {name(obj): obj for obj in objects}


def condition(obj: RawObject, kind: str) -> RawObject | None:
    """One entry of ``status.conditions``."""
    entry: RawObject
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == kind:
            return entry
    return None


def is_true(obj: RawObject, kind: str) -> bool:
    """Whether a condition is there and True."""
    entry = condition(obj, kind)
    return entry is not None and entry.get("status") == "True"


def node_id_of(cluster: str, pod_name: str) -> int | None:
    """The node id that a pod's name stands for; labels may be edited by hand, names can't.

    None if it is no name of a broker or controller.
    """
    for prefix, first in ((f"{cluster}-broker-", 0), (f"{cluster}-controller-", names.FIRST_CONTROLLER_ID)):
        rest = pod_name.removeprefix(prefix)
        if rest != pod_name and rest.isdecimal() and str(int(rest)) == rest:
            return first + int(rest)
    return None


def container_status(pod: RawObject, container: str) -> RawObject:
    """Status of one container or init container, empty if there is none yet."""
    status = pod.get("status") or {}
    entry: RawObject
    for part in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(part) or ():
            if entry.get("name") == container:
                return entry
    return _NOTHING


def image(pod: RawObject, container: str) -> str | None:
    """The image that a container was made with."""
    for entry in (pod.get("spec") or {}).get("containers") or ():
        if entry.get("name") == container:
            return str(entry.get("image"))
    return None


def terminated(pod: RawObject, container: str) -> RawObject | None:
    """How a container terminated: its present state if it is terminated, else its last termination before a restart.

    The kubelet keeps 4096 bytes of a message; a compromised one can write more, and that is cut.
    """
    status = container_status(pod, container)
    for state in ("state", "lastState"):
        ended = (status.get(state) or {}).get("terminated")
        if ended:
            return {**ended, "message": str(ended.get("message") or "")[:_LONGEST_MESSAGE]}
    return None


def waiting(pod: RawObject, container: str) -> RawObject | None:
    """Why a container does not run yet: ``reason`` and ``message``, as its node reports them; long texts are cut."""
    entry = (container_status(pod, container).get("state") or {}).get("waiting")
    if not entry:
        return None
    reason, message = (str(entry.get(key) or "") for key in ("reason", "message"))
    return {"reason": reason[:_LONGEST_REASON], "message": clipped(message)}


def kafka_ever_ran(pod: RawObject) -> bool:
    """Whether Kafka's container was ever started in this pod (and so may hold its log dirs)."""
    status = container_status(pod, names.CONTAINER_KAFKA)
    states = [status.get("state") or {}, status.get("lastState") or {}]
    return bool(status.get("restartCount")) or any("running" in s or "terminated" in s for s in states)


def kafka_runs(pod: RawObject) -> bool:
    """Whether Kafka's container runs at this moment."""
    return bool((container_status(pod, names.CONTAINER_KAFKA).get("state") or {}).get("running"))


def kafka_restarted(pod: RawObject) -> bool:
    """Whether the kubelet has started Kafka more than once in this pod."""
    return bool(container_status(pod, names.CONTAINER_KAFKA).get("restartCount"))


def kafka_started(pod: RawObject) -> str | None:
    """When the Kafka that runs at this moment was started, as an RFC 3339 time; None if none runs or it is unknown."""
    running = (container_status(pod, names.CONTAINER_KAFKA).get("state") or {}).get("running") or {}
    return running.get("startedAt") or None


def kept_down(broker: RawObject) -> bool:
    """Whether a KafkaBroker is to have no pod: stopped by a user, or scaled in."""
    return maintenance.stopped(broker) or bool((broker.get("spec") or {}).get("leaving"))


def unschedulable(pod: RawObject) -> bool:
    """Whether the scheduler reports that it finds no node for a pod."""
    scheduled = condition(pod, "PodScheduled")
    return scheduled is not None and scheduled.get("status") == "False"


def owned_by(obj: RawObject, owner: RawObject) -> bool:
    """Whether an object names another one as its owner."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return any(reference.get("uid") == uid(owner) for reference in owners)


def is_over(pod: RawObject) -> bool:
    """Whether all containers have terminated for good; such a pod only occupies its name."""
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def lost(claim: RawObject) -> bool:
    """Whether Kubernetes reports a claim as Lost: it has no volume any more, or one that is not bound to it."""
    return (claim.get("status") or {}).get("phase") == "Lost"


def bound_volume(claim: RawObject) -> str | None:
    """The PersistentVolume that a claim is bound to."""
    if (claim.get("status") or {}).get("phase") != "Bound":
        return None
    return (claim.get("spec") or {}).get("volumeName") or None


def claimed_by(volume: RawObject, claim: RawObject) -> bool:
    """Whether a volume belongs to a claim of this name, as the volume says: the ``volumeName`` of a claim is only what its author wrote."""
    ref, meta = (volume.get("spec") or {}).get("claimRef") or {}, claim["metadata"]
    return (ref.get("namespace"), ref.get("name")) == (meta.get("namespace"), meta.get("name"))


def pinned_to(volume: RawObject) -> str | None:
    """The host name that a volume's node affinity requires, if it is the usual one-host affinity."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for part in term.get("matchExpressions") or ():
            if part.get("key") == "kubernetes.io/hostname" and len(part.get("values") or ()) == 1:
                return str(part["values"][0])
    return None
