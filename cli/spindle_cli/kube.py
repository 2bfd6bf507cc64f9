"""The command line's access to Kubernetes: Spindle's objects as models, a few pods as raw dicts."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import ValidationError

from spindle.api import names
from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster
from spindle.api.common import ApiModel
from spindle.api.printable import printable
from spindle.api.rebalance import KafkaRebalance
from spindle_cli.libraries import kubernetes, urllib3

FIELD_MANAGER: Final = "spindle-cli"
_PAGE: Final = 100  # objects of one answer
_PART: Final = 64 << 10  # bytes of a body that is read in parts
_TIMEOUT: Final = (5, 30)  # seconds to connect, to answer
_OWNER: Final = re.compile(r'conflict with "([^"]+)"')
PLURALS: Final = {
    "KafkaBroker": "kafkabrokers",
    "KafkaCluster": "kafkaclusters",
    "KafkaRebalance": "kafkarebalances",
    "KafkaUser": "kafkausers",
}

Json = dict[str, Any]
M = TypeVar("M", bound=ApiModel)


class KubeError(Exception):
    """Kubernetes was not reachable, or refused the request; the message is shown to the user."""


class NotFoundError(KubeError):
    """The object does not exist."""


class ReplacedError(KubeError):
    """The object was deleted and created again since it was read."""


class ConflictError(KubeError):
    """The object changed meanwhile, or other field managers own the fields.

    Attributes:
        managers: these field managers; empty if the object changed.
    """

    def __init__(self, message: str, managers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.managers = managers


@dataclass(frozen=True)
class ClusterView:
    """One cluster: its KafkaCluster, brokers and controllers.

    Attributes:
        controllers: the controllers' pods, raw.
    """

    cluster: KafkaCluster
    brokers: tuple[KafkaBroker, ...]
    controllers: tuple[Json, ...]

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.metadata.name


class Kube:
    """One namespace of one Kubernetes. Every method raises KubeError.

    Attributes:
        chosen_context: of the kubeconfig, from the command line; None for its current one.
    """

    chosen_context: ClassVar[str | None] = None

    def __init__(self, api: "kubernetes.client.ApiClient", namespace: str) -> None:
        self.namespace = namespace
        self.api = api
        self._custom = kubernetes.client.CustomObjectsApi(api)
        self._core = kubernetes.client.CoreV1Api(api)
        self._batch = kubernetes.client.BatchV1Api(api)

    @classmethod
    def connect(cls, namespace: str | None = None, context: str | None = None) -> Self:
        """Connect as kubectl does: KUBECONFIG, else ~/.kube/config.

        Args:
            namespace: None for the context's own.
        """
        try:
            context = context or cls.chosen_context
            contexts, active = kubernetes.config.list_kube_config_contexts()
            if context is not None:
                active = next((each for each in contexts if each["name"] == context), None)
                if active is None:
                    there = ", ".join(sorted(each["name"] for each in contexts))
                    raise KubeError(f"there is no context {context} in the kubeconfig; there is {there}")
            api = kubernetes.config.new_client_from_config(context=active["name"])
        except (kubernetes.config.ConfigException, OSError, TypeError, KeyError) as error:
            raise KubeError(f"no usable kubeconfig: {error}; set KUBECONFIG") from error
        return cls(api, namespace or active["context"].get("namespace") or "default")

    def clusters(self) -> list[KafkaCluster]:
        """The namespace's clusters."""
        return [parsed(KafkaCluster, raw) for raw in self._list("kafkaclusters")]

    def one_cluster(self, name: str | None) -> str:
        """The given name, or that of the namespace's only cluster."""
        if name:
            return name
        found = [cluster.metadata.name for cluster in self.clusters()]
        if len(found) == 1:
            return found[0]
        there = f"there are {', '.join(sorted(found))}" if found else "there is none"
        raise KubeError(f"which cluster in namespace {self.namespace}? {there}")

    def cluster(self, name: str) -> KafkaCluster:
        """One cluster."""
        return parsed(KafkaCluster, self.raw("KafkaCluster", name))

    def view(self, name: str) -> ClusterView:
        """A cluster with its brokers and controllers."""
        brokers = [parsed(KafkaBroker, raw) for raw in self._list("kafkabrokers")]
        selector = f"{names.LABEL_CLUSTER}={name},{names.LABEL_ROLE}={names.ROLE_CONTROLLER}"
        return ClusterView(
            self.cluster(name),
            tuple(
                sorted((each for each in brokers if each.spec.cluster == name), key=lambda each: each.spec.id)
            ),
            tuple(sorted(self.pods(selector), key=lambda pod: str(pod["metadata"]["name"]))),
        )

    def broker(self, name: str) -> KafkaBroker:
        """One broker."""
        return parsed(KafkaBroker, self.raw("KafkaBroker", name))

    def raw(self, kind: str, name: str) -> Json:
        """One object of a kind of Spindle's, as the API server sends it."""
        call = self._custom.get_namespaced_custom_object
        there: Any = self.ask(f"{kind} {name}", call, *self._place(kind, name))
        if not isinstance(there, dict):
            raise no_object(f"{kind} {name}")
        return there

    def _place(self, kind: str, name: str) -> tuple[str, str, str, str, str]:
        # In a URL they would be the path of another object, or of the list.
        if name in ("", ".", ".."):
            raise KubeError(f"{name!r} is no name of a {kind}")
        return names.GROUP, names.VERSION, self.namespace, PLURALS[kind], name

    def _patch(self, kind: str, name: str, body: Json | list[Json], content: str, **options: Any) -> Json:
        call = self._custom.patch_namespaced_custom_object
        options = {"field_manager": FIELD_MANAGER, "_content_type": content, **options}
        changed: Json = self.ask(f"{kind} {name}", call, *self._place(kind, name), body, **options)
        return changed

    def apply(self, body: Json, manager: str, *, force: bool = False) -> Json:
        """Server-side apply: the fields of ``body`` become this manager's, and its former ones are removed.

        Raises:
            ConflictError: others own one of the fields with another value, and ``force`` is not set.
        """
        kind, name = body["kind"], body["metadata"]["name"]
        options = {"field_manager": manager, "force": force, "field_validation": "Strict"}
        return self._patch(kind, name, body, "application/apply-patch+yaml", **options)

    def json_patch(self, kind: str, name: str, steps: list[Json]) -> None:
        """Change one object, if the tests among the steps hold."""
        self._patch(kind, name, steps, "application/json-patch+json")

    def events(self, broker: str) -> list[Json]:
        """Kubernetes events that regard a KafkaBroker, raw."""
        chosen = f"involvedObject.kind=KafkaBroker,involvedObject.name={broker}"
        call = self._core.list_namespaced_event
        return list(self.answer("events", call, self.namespace, field_selector=chosen)["items"])

    def config_map(self, name: str) -> Json:
        """One ConfigMap."""
        return self.answer(f"ConfigMap {name}", self._core.read_namespaced_config_map, name, self.namespace)

    def rebalances(self, cluster: str | None = None) -> list[KafkaRebalance]:
        """Proposals, the oldest first.

        Args:
            cluster: None for those of all clusters of the namespace.
        """
        found = [parsed(KafkaRebalance, raw) for raw in self._list("kafkarebalances")]
        mine = [each for each in found if cluster in (None, each.spec.cluster)]
        return sorted(mine, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))

    def rebalance(self, name: str) -> KafkaRebalance:
        """One proposal."""
        return parsed(KafkaRebalance, self.raw("KafkaRebalance", name))

    def change_rebalance(self, name: str, version: str, spec: Json) -> None:
        """Set a user's fields of a proposal, if it still has this resourceVersion; an empty version matches any."""
        metadata = {"resourceVersion": version} if version else {}
        body = {"metadata": metadata, "spec": spec}
        self._patch("KafkaRebalance", name, body, "application/merge-patch+json")

    def cron_job(self, name: str) -> Json:
        """One CronJob."""
        return self.answer(f"CronJob {name}", self._batch.read_namespaced_cron_job, name, self.namespace)

    def create_job(self, manifest: Json) -> None:
        """Create a Job."""
        name = manifest["metadata"]["name"]
        call = self._batch.create_namespaced_job
        self.ask(f"Job {name}", call, self.namespace, manifest, _preload_content=False)

    def pods(self, selector: str) -> list[Json]:
        """The namespace's pods with these labels."""
        call = self._core.list_namespaced_pod
        return list(self.answer("pods", call, self.namespace, label_selector=selector)["items"])

    def pod(self, name: str) -> Json:
        """One pod."""
        return self.answer(f"pod {name}", self._core.read_namespaced_pod, name, self.namespace)

    def create_pod(self, manifest: Json) -> None:
        """Create a pod."""
        name = manifest["metadata"]["name"]
        call = self._core.create_namespaced_pod
        self.ask(f"pod {name}", call, self.namespace, manifest, _preload_content=False)

    def delete_pod(self, name: str) -> None:
        """Delete a pod, if it exists."""
        call = self._core.delete_namespaced_pod
        try:
            self.ask(
                f"pod {name}", call, name, self.namespace, grace_period_seconds=0, _preload_content=False
            )
        except NotFoundError:
            return

    def log(self, pod: str) -> Iterator[str]:
        """Lines of a pod's log, from its beginning, until its container ends or the connection does."""
        call = self._core.read_namespaced_pod_log
        answer = self.ask(
            f"log of pod {pod}",
            call,
            *(pod, self.namespace),
            follow=True,
            _preload_content=False,
            _request_timeout=(5, 3600),
        )
        rest = b""
        try:
            for chunk in answer.stream(4096):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in lines)
        except urllib3.exceptions.HTTPError:
            return
        finally:
            answer.release_conn()
        if rest:
            yield rest.decode("utf-8", "replace")

    def _list(self, plural: str) -> list[Json]:
        call = self._custom.list_namespaced_custom_object
        answer = self.ask(plural, call, names.GROUP, names.VERSION, self.namespace, plural)
        if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
            raise no_object(plural)
        return list(answer["items"])

    def pages(self, what: str, call: Any, *args: Any, **kwargs: Any) -> Iterator[Json]:
        """The answers of a list, page by page, so that one page is in memory at a time."""
        more: Json = {}
        while True:
            page = self.answer(what, call, *args, limit=_PAGE, **kwargs, **more)
            yield page
            if not (following := page["metadata"].get("continue")):
                return
            more = {"_continue": following}

    def answer(self, what: str, call: Any, *args: Any, **kwargs: Any) -> Json:
        """An object as the API server sends it, which the client's own classes would change."""
        found: Json = json.loads(
            self.body(what, self.ask(what, call, *args, _preload_content=False, **kwargs))
        )
        return found

    def body(self, what: str, answer: Any) -> bytes:
        """The body of an answer, which is read only now: the connection may break."""
        try:
            return bytes(answer.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError(f"the connection broke while Kubernetes sent {what}: {error}") from error

    def end_of(self, what: str, answer: Any, most: int) -> bytes:
        """The last bytes of an answer that may be of any size; a line of which a part would be missing is left out, unless it is the only one."""
        kept = bytearray()
        try:
            for part in answer.stream(_PART):
                kept += part
                if len(kept) > 2 * most:
                    del kept[: len(kept) - most - 1]
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError(f"the connection broke while Kubernetes sent {what}: {error}") from error
        if len(kept) <= most:
            return bytes(kept)
        # One byte more than the limit tells whether it begins with a whole line.
        return bytes(kept[len(kept) - most - 1 :]).partition(b"\n")[2] or bytes(kept[-most:])

    def ask(self, what: str, call: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the client with a timeout; its exceptions become KubeError with a message that names the object."""
        kwargs.setdefault("_request_timeout", _TIMEOUT)
        try:
            return call(*args, **kwargs)
        except kubernetes.client.ApiException as error:
            if error.status == 404 and what.startswith("kafka"):
                raise NotFoundError(
                    f"the API server does not know {what}: install Spindle first (helm install spindle charts/spindle)"
                ) from error
            if error.status == 404:
                raise NotFoundError(f"there is no {what} in namespace {self.namespace}") from error
            if error.status == 409:
                raise ConflictError(f"{what}: {_said(error)}", _owners(error)) from error
            if error.status == 422 and "metadata.uid" in _said(error):
                raise ReplacedError(f"{what} was deleted and created again meanwhile") from error
            raise KubeError(f"{what}: {_said(error)}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError(f"Kubernetes does not answer: {error}") from error


def no_object(what: str) -> KubeError:
    """The error for an answer that is no object of Kubernetes."""
    return KubeError(
        f"the answer about {what} is no object of Kubernetes. Is the server of the kubeconfig a Kubernetes API server, or does a proxy answer in "
        "its place?"
    )


def parsed(model: type[M], raw: Any) -> M:
    """An object of Spindle's as its model.

    Raises:
        KubeError: it has a form that this version does not know.
    """
    try:
        return model.parse(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        name = (raw.get("metadata") or {}).get("name", "") if isinstance(raw, dict) else ""
        raise KubeError(
            f"{model.__name__} {name} has a form that this version of the command does not know: {where}: {first['msg']}. Use the version of "
            "the operator that wrote it"
        ) from error


def _said(error: "kubernetes.client.ApiException") -> str:
    """Error message of the API server."""
    try:
        return printable(str(json.loads(error.body or "")["message"]))
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"


def _owners(error: "kubernetes.client.ApiException") -> tuple[str, ...]:
    """The field managers that a conflict names."""
    return tuple(dict.fromkeys(_OWNER.findall(_said(error))))
