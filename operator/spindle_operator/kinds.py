"""API paths of each kind of object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names


@dataclass(frozen=True)
class Kind:
    """One kind of object, with all parts of its API path.

    Attributes:
        group: API group, empty for the core one.
    """

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of objects: ``v1``, ``apps/v1``, and so on."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Path of the collection, of one object, or of a subresource.

        Args:
            namespace: None with a namespaced kind means all namespaces.
            name: None for the collection.
            subresource: ``status``, ``eviction`` and so on.
        """
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if self.namespaced and namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part)
        return "/".join(parts)


KAFKA_CLUSTER: Final = Kind("KafkaCluster", names.GROUP, names.VERSION, "kafkaclusters")
KAFKA_BROKER: Final = Kind("KafkaBroker", names.GROUP, names.VERSION, "kafkabrokers")
KAFKA_REBALANCE: Final = Kind("KafkaRebalance", names.GROUP, names.VERSION, "kafkarebalances")
KAFKA_USER: Final = Kind("KafkaUser", names.GROUP, names.VERSION, "kafkausers")
KAFKA_TOPIC: Final = Kind("KafkaTopic", names.GROUP, names.VERSION, "kafkatopics")
POD: Final = Kind("Pod", "", "v1", "pods")
CLAIM: Final = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims")
VOLUME: Final = Kind("PersistentVolume", "", "v1", "persistentvolumes", namespaced=False)
SERVICE: Final = Kind("Service", "", "v1", "services")
CONFIG_MAP: Final = Kind("ConfigMap", "", "v1", "configmaps")
SECRET: Final = Kind("Secret", "", "v1", "secrets")
NODE: Final = Kind("Node", "", "v1", "nodes", namespaced=False)
EVENT: Final = Kind("Event", "", "v1", "events")
SERVICE_ACCOUNT: Final = Kind("ServiceAccount", "", "v1", "serviceaccounts")
BUDGET: Final = Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets")
NETWORK_POLICY: Final = Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies")
TLS_ROUTE: Final = Kind("TLSRoute", "gateway.networking.k8s.io", "v1", "tlsroutes")
STORAGE_CLASS: Final = Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", namespaced=False)
ROLE: Final = Kind("Role", "rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDING: Final = Kind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings")
CRON_JOB: Final = Kind("CronJob", "batch", "v1", "cronjobs")
JOB: Final = Kind("Job", "batch", "v1", "jobs")
NAMESPACE: Final = Kind("Namespace", "", "v1", "namespaces", namespaced=False)
LEASE: Final = Kind("Lease", "coordination.k8s.io", "v1", "leases")

KINDS: Final[Mapping[str, Kind]] = {
    kind.kind: kind
    for kind in (
        KAFKA_CLUSTER,
        KAFKA_BROKER,
        KAFKA_REBALANCE,
        KAFKA_USER,
        KAFKA_TOPIC,
        POD,
        CLAIM,
        VOLUME,
        SERVICE,
        CONFIG_MAP,
        SECRET,
        NODE,
        EVENT,
        SERVICE_ACCOUNT,
        BUDGET,
        NETWORK_POLICY,
        TLS_ROUTE,
        STORAGE_CLASS,
        ROLE,
        ROLE_BINDING,
        CRON_JOB,
        JOB,
        LEASE,
        NAMESPACE,
    )
}


def kind_of(obj: Mapping[str, Any]) -> Kind:
    """The kind of a raw object.

    Raises:
        KeyError: the operator does not handle such objects.
    """
    return KINDS[obj["kind"]]
