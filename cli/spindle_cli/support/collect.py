"""Reads what goes into a support bundle, with the rights of the user's kubeconfig; what cannot be read is noted."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final

import yaml

from spindle.api import names
from spindle.model import objects
from spindle_cli.kube import Json, Kube, KubeError
from spindle_cli.libraries import kubernetes
from spindle_cli.support.redact import Scrubber, bare

_ABOUT: Final = """A support bundle of Spindle: KafkaCluster {cluster} in namespace {namespace}, {at}.

resources/   KafkaCluster, KafkaBrokers, KafkaRebalances, KafkaTopics, KafkaUsers, pods, claims, volumes, nodes, ConfigMaps, … as YAML
secrets.json names, types and keys of Secrets; no values
events.json  Kubernetes events
kafka.json   Kafka's state as the operator last saw it: quorum, racks, disks, waiting, moves
logs/        ends of the logs of operator, agents, Kafka and init containers
versions.json
problems.txt what could not be read

Values of environment variables, of settings with a name like password, and of Secrets were replaced by <removed>.
Read it before you send it: messages and topics' names are in it.
"""
_COMPONENT: Final = "app.kubernetes.io/component in (operator, agent),app.kubernetes.io/name"
_LONGEST: Final = 4 << 20  # bytes of one log


@dataclass(frozen=True)
class Limits:
    """How much is collected.

    Attributes:
        lines: last lines of each log.
        pods: Kafka pods whose logs are collected; those that are not ready come first.
    """

    lines: int = 2000
    pods: int = 50


@dataclass
class Bundle:
    """The files of a bundle, one after the other; `problems` grows while they are read."""

    kube: Kube
    cluster: str
    limits: Limits = field(default_factory=Limits)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the clients."""
        self._core = kubernetes.client.CoreV1Api(self.kube.api)
        self._custom = kubernetes.client.CustomObjectsApi(self.kube.api)
        self._apps = kubernetes.client.AppsV1Api(self.kube.api)
        self._leases = kubernetes.client.CoordinationV1Api(self.kube.api)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Path and content of each file."""
        operators = self._operators()
        namespaces = sorted({self.kube.namespace, *(each["metadata"]["namespace"] for each in operators)})
        secrets = [each for namespace in namespaces for each in self._secrets(namespace)]
        scrubber = Scrubber(secrets)
        yield "secrets.json", _json([bare({**each, "kind": "Secret"}) for each in secrets])
        found = {kind: list(listed) for kind, listed in self._resources(namespaces)}
        found["pods"] += [each for each in operators if each["metadata"]["namespace"] != self.kube.namespace]
        for kind, listed in found.items():
            for each in listed:
                yield _path(kind, each), _yaml(scrubber.value(bare(each)))
        yield "kafka.json", _json(scrubber.value(kafka_view(found)))
        events = [each for namespace in namespaces for each in self._events(namespace)]
        yield "events.json", _json([scrubber.value(bare(each)) for each in events])
        for path, text in self._logs(found["pods"]):
            yield path, scrubber.text(text).encode()
        yield "versions.json", _json(self._versions(found["pods"]))
        at = datetime.now(UTC).isoformat(timespec="seconds")
        about = _ABOUT.format(cluster=self.cluster, namespace=self.kube.namespace, at=at)
        yield "README.txt", about.encode()
        yield "problems.txt", scrubber.text("\n".join(self.problems) or "none").encode()

    def _resources(self, namespaces: Sequence[str]) -> Iterator[tuple[str, Iterator[Json]]]:
        """Objects by kind."""
        here, core = self.kube.namespace, self._core
        ours = {"label_selector": f"{names.LABEL_CLUSTER}={self.cluster}"}
        for plural in ("kafkaclusters", "kafkabrokers", "kafkarebalances", "kafkatopics", "kafkausers"):
            yield plural, self._spindles(plural)
        yield "pods", self._list("pods", core.list_namespaced_pod, here, **ours)
        yield "configmaps", self._list("configmaps", core.list_namespaced_config_map, here, **ours)
        yield "services", self._list("services", core.list_namespaced_service, here, **ours)
        claims = core.list_namespaced_persistent_volume_claim
        yield "persistentvolumeclaims", self._list("persistentvolumeclaims", claims, here, **ours)
        yield "persistentvolumes", self._volumes()
        yield "nodes", self._list("nodes", core.list_node)
        for kind, call in (
            ("deployments", self._apps.list_namespaced_deployment),
            ("daemonsets", self._apps.list_namespaced_daemon_set),
            ("leases", self._leases.list_namespaced_lease),
        ):
            yield kind, (each for namespace in namespaces for each in self._list(kind, call, namespace))

    def _spindles(self, plural: str) -> Iterator[Json]:
        call = self._custom.list_namespaced_custom_object
        place = (names.GROUP, names.VERSION, self.kube.namespace, plural)
        for each in self._list(plural, call, *place):
            owner = each["metadata"]["name"] if plural == "kafkaclusters" else each["spec"].get("cluster")
            if owner == self.cluster:
                yield each

    def _volumes(self) -> Iterator[Json]:
        """Volumes that claims of the namespace are bound to."""
        for each in self._list("persistentvolumes", self._core.list_persistent_volume):
            if (each["spec"].get("claimRef") or {}).get("namespace") == self.kube.namespace:
                yield each

    def _operators(self) -> list[Json]:
        """Pods of Spindle's operator and agents, in whatever namespace they are."""
        call = self._core.list_pod_for_all_namespaces
        found = list(self._list("pods of all namespaces", call, label_selector=_COMPONENT))
        if not found:
            here = self._core.list_namespaced_pod
            found = list(self._list("pods", here, self.kube.namespace, label_selector=_COMPONENT))
        return [each for each in found if _is_spindles(each)]

    def _secrets(self, namespace: str) -> Iterator[Json]:
        return self._list(f"Secrets in {namespace}", self._core.list_namespaced_secret, namespace)

    def _events(self, namespace: str) -> Iterator[Json]:
        return self._list(f"events in {namespace}", self._core.list_namespaced_event, namespace)

    def _list(self, what: str, call: Callable[..., Any], *where: str, **chosen: str) -> Iterator[Json]:
        """Objects of one kind, page by page; a refusal is a problem, not an error."""
        try:
            for page in self.kube.pages(what, call, *where, **chosen):
                yield from page["items"]
        except KubeError as error:
            self.problems.append(str(error))

    def _logs(self, pods: Sequence[Json]) -> Iterator[tuple[str, str]]:
        ordered = sorted(
            pods,
            key=lambda pod: (not _is_spindles(pod), objects.is_true(pod, "Ready"), pod["metadata"]["name"]),
        )
        spindles = sum(map(_is_spindles, ordered))
        left = ordered[spindles + self.limits.pods :]
        if left:
            self.problems.append(f"logs of {len(left)} further Kafka pods were not collected: see --pods")
        for pod in ordered[: spindles + self.limits.pods]:
            meta = pod["metadata"]
            for container, restarted in _containers(pod):
                path = f"logs/{meta['namespace']}/{meta['name']}/{container}"
                yield from self._log(meta, container, path, previous=False)
                if restarted:
                    yield from self._log(meta, container, f"{path}.previous", previous=True)

    def _log(
        self, meta: Mapping[str, str], container: str, path: str, *, previous: bool
    ) -> Iterator[tuple[str, str]]:
        what = f"log of {container} in pod {meta['name']}"
        try:
            answer = self.kube.ask(
                what,
                self._core.read_namespaced_pod_log,
                *(meta["name"], meta["namespace"]),
                container=container,
                previous=previous,
                tail_lines=self.limits.lines,
                timestamps=True,
                _preload_content=False,
            )
            # The API server's limitBytes would drop the newest lines of the last ones.
            yield f"{path}.log", self.kube.end_of(what, answer, _LONGEST).decode(errors="replace")
        except KubeError as error:
            self.problems.append(str(error))

    def _versions(self, pods: Sequence[Json]) -> Json:
        found: Json = {"spindle-kafka": metadata.version("spindle-kafka")}
        try:
            call = kubernetes.client.VersionApi(self.kube.api).get_code
            found["kubernetes"] = self.kube.answer("version", call)
        except KubeError as error:
            self.problems.append(str(error))
        images = {
            (each.get("image", ""), each.get("imageID", ""))
            for pod in pods
            for each in pod.get("status", {}).get("containerStatuses") or ()
        }
        found["images"] = [{"image": image, "id": digest} for image, digest in sorted(images)]
        return found


def kafka_view(found: Mapping[str, Sequence[Json]]) -> Json:
    """Kafka's state as the operator recorded it: the status of the cluster, of its brokers, topics and users, and the journal of moves."""
    view: Json = {
        kind: {each["metadata"]["name"]: each.get("status") for each in found.get(kind, ())}
        for kind in ("kafkaclusters", "kafkabrokers", "kafkatopics", "kafkausers")
    }
    journals = [each for each in found.get("configmaps", ()) if "journal" in (each.get("data") or {})]
    view["moves"] = {each["metadata"]["name"]: _parsed(each["data"]["journal"]) for each in journals}
    return view


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_spindles(pod: Json) -> bool:
    """Whether it is a pod of the operator or of an agent."""
    return names.LABEL_CLUSTER not in pod["metadata"].get("labels", {}) and any(
        "spindle" in str(each.get("command") or each.get("image")) for each in pod["spec"]["containers"]
    )


def _containers(pod: Json) -> Iterator[tuple[str, bool]]:
    """Names of the containers that have run, and whether each was restarted."""
    status = pod.get("status", {})
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if "waiting" not in each.get("state", {}) or each.get("restartCount"):
            yield each["name"], bool(each.get("restartCount"))


def _path(kind: str, obj: Json) -> str:
    meta = obj["metadata"]
    folder = f"resources/{meta['namespace']}/{kind}" if meta.get("namespace") else f"resources/{kind}"
    return f"{folder}/{meta['name']}.yaml"


def _yaml(value: Any) -> bytes:
    return bytes(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, encoding="utf-8"))


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()
