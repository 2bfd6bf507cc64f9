"""Kubernetes access of a run: reads a cluster's objects, and writes proposals and reports."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from spindle.api import names
from spindle_rebalance.errors import KUBERNETES, NO_CLUSTER, REFUSED, RunError

Json = dict[str, Any]

_TIMEOUT: Final = (5, 30)  # seconds to connect, to answer
_PAGE: Final = 200
_NOT_FOUND: Final = 404


class Kube:
    """A connection to Kubernetes. Every method raises RunError."""

    def __init__(self, api: client.ApiClient) -> None:
        self._custom = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)

    @classmethod
    def connect(cls) -> Self:
        """Connect as the pod's ServiceAccount; outside a cluster like kubectl."""
        try:
            made = client.Configuration()
            try:
                config.load_incluster_config(client_configuration=made)
            except ConfigException:
                config.load_kube_config(client_configuration=made)
        except (ConfigException, OSError, TypeError) as error:
            raise RunError(
                KUBERNETES,
                f"neither a ServiceAccount nor a usable kubeconfig was found: {error}; set KUBECONFIG",
            ) from error
        return cls(client.ApiClient(made))

    def cluster(self, namespace: str, name: str) -> Json:
        """A KafkaCluster."""
        what = f"KafkaCluster {namespace}/{name}"
        found = self._get(what, namespace, "kafkaclusters", name)
        if found is None:
            raise RunError(NO_CLUSTER, f"{what} does not exist")
        return found

    def brokers(self, namespace: str, cluster: str) -> list[Json]:
        """The KafkaBrokers of a cluster, by id."""
        found = [b for b in self._list(namespace, "kafkabrokers") if b["spec"].get("cluster") == cluster]
        return sorted(found, key=lambda broker: int(broker["spec"]["id"]))

    def rebalances(self, namespace: str, cluster: str) -> list[Json]:
        """The KafkaRebalances of a cluster, by name."""
        found = [r for r in self._list(namespace, "kafkarebalances") if r["spec"].get("cluster") == cluster]
        return sorted(found, key=lambda rebalance: str(rebalance["metadata"]["name"]))

    def rebalance(self, namespace: str, name: str) -> Json | None:
        """One KafkaRebalance; None if it does not exist."""
        return self._get(f"KafkaRebalance {namespace}/{name}", namespace, "kafkarebalances", name)

    def apply_rebalance(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Write a KafkaRebalance by server-side apply, under the job's own field manager."""
        name = body["metadata"]["name"]
        self._ask(
            f"KafkaRebalance {namespace}/{name}",
            self._custom.patch_namespaced_custom_object,
            *(names.GROUP, names.VERSION, namespace, "kafkarebalances", name),
            dict(body),
            field_manager=names.FIELD_MANAGER_REBALANCE,
            _content_type="application/apply-patch+yaml",
        )

    def config_map(self, namespace: str, name: str) -> Json | None:
        """A ConfigMap with its fields named as in JSON; None if it does not exist."""
        try:
            found = self._ask(
                f"ConfigMap {namespace}/{name}", self._core.read_namespaced_config_map, name, namespace
            )
        except _AbsentError:
            return None
        return dict(self._core.api_client.sanitize_for_serialization(found))

    def create_config_map(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Create a ConfigMap; fails if it exists."""
        self._ask(
            f"ConfigMap {namespace}/{body['metadata']['name']}",
            self._core.create_namespaced_config_map,
            *(namespace, dict(body)),
            field_manager=names.FIELD_MANAGER_REBALANCE,
        )

    def apply_config_map(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Write a ConfigMap by server-side apply; a UID and resourceVersion in its metadata are preconditions."""
        name = body["metadata"]["name"]
        self._ask(
            f"ConfigMap {namespace}/{name}",
            self._core.patch_namespaced_config_map,
            *(name, namespace),
            dict(body),
            field_manager=names.FIELD_MANAGER_REBALANCE,
            force=True,
            _content_type="application/apply-patch+yaml",
        )

    def _get(self, what: str, namespace: str, plural: str, name: str) -> Json | None:
        call = self._custom.get_namespaced_custom_object
        try:
            return dict(self._ask(what, call, names.GROUP, names.VERSION, namespace, plural, name))
        except _AbsentError:
            return None

    def _list(self, namespace: str, plural: str) -> Iterator[Json]:
        call, token = self._custom.list_namespaced_custom_object, None
        while True:
            more: Json = {"_continue": token} if token else {}
            page = self._ask(
                f"{plural} of {namespace}",
                call,
                *(names.GROUP, names.VERSION, namespace, plural),
                limit=_PAGE,
                **more,
            )
            yield from page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return

    @staticmethod
    def _ask(what: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return call(*args, **options, _request_timeout=_TIMEOUT)
        except ApiException as error:
            if error.status == _NOT_FOUND:
                raise _AbsentError(REFUSED, f"{what} does not exist") from error
            text = " ".join(str(error.body or error.reason).split())[:500]
            raise RunError(REFUSED, f"{what}: Kubernetes answered {error.status}: {text}") from error
        except (HTTPError, OSError) as error:
            raise RunError(KUBERNETES, f"{what}: Kubernetes did not answer: {error}") from error


class _AbsentError(RunError):
    """The requested object does not exist."""
