"""Reads what the checks of ``spindle doctor`` need. What this user may not read is left out and named."""

import json
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any, Final

from spindle.api import names
from spindle.api.cluster import KafkaCluster
from spindle.api.crd import crds
from spindle.model import nodes
from spindle_cli.doctor.facts import Facts, Right
from spindle_cli.kube import Json, Kube, KubeError, NotFoundError
from spindle_cli.libraries import kubernetes

RIGHTS: Final = (
    Right("create", "kafkaclusters", names.GROUP, "to apply a KafkaCluster", vital=True),
    Right("patch", "kafkaclusters", names.GROUP, "to change one, to pause it, or to restart its brokers"),
    Right("patch", "kafkabrokers", names.GROUP, "to stop brokers and to drain disks"),
    Right("list", "kafkabrokers", names.GROUP, "for spindle status"),
    Right("create", "pods", "", "for spindle topic, verify and disks"),
    Right("get", "secrets", "", "for spindle user password and backup --secrets"),
)


def read(kube: Kube, wanted: Sequence[KafkaCluster]) -> Facts:
    """All facts.

    Args:
        kube: in the namespace to check.
        wanted: the KafkaClusters to check for; those of the namespace if there are none.
    """
    gaps: dict[str, str] = {}

    def attempt(what: str, work: Callable[[], list[Json]]) -> list[Json]:
        try:
            return work()
        except KubeError as error:
            gaps[what] = str(error)
            return []

    client = kubernetes.client
    core, storage = client.CoreV1Api(kube.api), client.StorageV1Api(kube.api)
    leases = client.CoordinationV1Api(kube.api)
    kubernetes_version, server_time, own_time = _server(kube)
    definitions, schemas = _definitions(kube, gaps)
    clusters = _clusters(kube) if _knows_clusters(definitions) else []
    return Facts(
        namespace=kube.namespace,
        program=version("spindle-kafka"),
        kubernetes=kubernetes_version,
        server_time=server_time,
        own_time=own_time,
        clusters=wanted or clusters,
        existing=frozenset(each.metadata.name for each in clusters),
        nodes=attempt("nodes", lambda: _items(kube, "nodes", core.list_node)),
        classes=attempt("classes", lambda: _items(kube, "StorageClasses", storage.list_storage_class)),
        volumes=attempt("volumes", lambda: _items(kube, "PersistentVolumes", core.list_persistent_volume)),
        leases=attempt(
            "leases", lambda: _items(kube, "leases of nodes", leases.list_namespaced_lease, "kube-node-lease")
        ),
        operators=attempt(
            "operators",
            lambda: operators(kube),
        ),
        agents=attempt(
            "agents",
            lambda: _running(
                _items(kube, "pods", core.list_pod_for_all_namespaces, label_selector=_part("agent")),
                "spindle-agent",
            ),
        ),
        definitions=definitions,
        schemas=schemas,
        rights={right: _allowed(kube, right) for right in RIGHTS},
        unreadable=gaps,
    )


def operators(kube: Kube) -> list[Json]:
    """The Deployments of operators, in all namespaces.

    Raises:
        KubeError: they cannot be read.
    """
    call = kubernetes.client.AppsV1Api(kube.api).list_deployment_for_all_namespaces
    found = _items(kube, "Deployments", call, label_selector=_part("operator"))
    return _running(found, "spindle-operator")


def _knows_clusters(definitions: dict[str, Json]) -> bool:
    """Whether the API server knows KafkaClusters."""
    return f"kafkaclusters.{names.GROUP}" in definitions


def _clusters(kube: Kube) -> list[KafkaCluster]:
    try:
        return kube.clusters()
    except KubeError:  # the check of the rights names it
        return []


def _part(component: str) -> str:
    return f"app.kubernetes.io/component={component}"


def _running(found: list[Json], command: str) -> list[Json]:
    """Those that run this command of Spindle's; others may have the same label."""
    return [each for each in found if command in _commands(each)]


def _commands(obj: Json) -> list[str]:
    spec = nodes.section(obj, "spec", "template", "spec") or nodes.section(obj, "spec")
    return [str(word) for box in nodes.items(spec.get("containers")) for word in box.get("command") or ()]


def _items(kube: Kube, what: str, call: Any, *args: Any, **kwargs: Any) -> list[Json]:
    return list(kube.answer(what, call, *args, **kwargs)["items"])


def _server(kube: Kube) -> tuple[str, float | None, float]:
    """Version of the API server, its time and the time of this machine at that moment."""
    before = time.time()
    answer = kube.ask("version", kubernetes.client.VersionApi(kube.api).get_code, _preload_content=False)
    middle = (before + time.time()) / 2
    date = answer.headers.get("Date")
    at = parsedate_to_datetime(date).timestamp() if date else None
    return str(json.loads(answer.data).get("gitVersion", "")), at, middle


def _definitions(kube: Kube, gaps: dict[str, str]) -> tuple[dict[str, Json], dict[str, Json]]:
    """CustomResourceDefinitions of the API server, and those of this version."""
    made = {each["metadata"]["name"]: each for each in crds().values()}
    call = kubernetes.client.ApiextensionsV1Api(kube.api).read_custom_resource_definition
    found: dict[str, Json] = {}
    for name in made:
        try:
            found[name] = kube.answer(f"CustomResourceDefinition {name}", call, name)
        except NotFoundError:
            continue
        except KubeError as error:
            gaps["definitions"] = str(error)
            break
    return found, made


def _allowed(kube: Kube, right: Right) -> bool:
    """Whether the user has a right, as the API server says."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "namespace": kube.namespace,
                "verb": right.verb,
                "group": right.group,
                "resource": right.resource,
            }
        },
    }
    call = kubernetes.client.AuthorizationV1Api(kube.api).create_self_subject_access_review
    return bool(kube.answer("SelfSubjectAccessReview", call, review)["status"].get("allowed"))
