"""The command line's access to Kubernetes: Spindle's objects as models, a few pods as raw dicts."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote

from spindle.api import names
from spindle.api.printable import printable
from spindle_cli import direct
from spindle_cli.copied import Typed
from spindle_cli.direct import Answer, Direct, NoAnswerError
from spindle_cli.libraries import kubernetes, urllib3

if TYPE_CHECKING:  # the models take longer to import than most commands run
    from spindle.api.broker import KafkaBroker
    from spindle.api.cluster import KafkaCluster
    from spindle.api.common import ApiModel
    from spindle.api.rebalance import KafkaRebalance

FIELD_MANAGER: Final = "spindle-cli"
_PAGE: Final = 100  # objects of one answer
_PART: Final = 64 << 10  # bytes of a body that is read in parts
_TIMEOUT: Final = (5, 30)  # seconds to connect, to answer
_OWNER: Final = re.compile(r'conflict with "([^"]+)"')
PLURALS: Final = {
    "KafkaBroker": "kafkabrokers",
    "KafkaCluster": "kafkaclusters",
    "KafkaRebalance": "kafkarebalances",
    "KafkaTopic": "kafkatopics",
    "KafkaUser": "kafkausers",
}

Json = dict[str, Any]
M = TypeVar("M", bound="ApiModel")


class KubeError(Exception):
    """Kubernetes was not reachable, or refused the request; the message is shown to the user."""


class NotFoundError(KubeError):
    """The object does not exist."""


class InvalidError(KubeError):
    """The object is not one that its kind may have."""


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
    """One cluster, as the API server sends it: its KafkaCluster, its KafkaBrokers and the controllers' pods."""

    cluster: Json
    brokers: tuple[Json, ...]
    controllers: tuple[Json, ...]


class Kube:
    """One namespace of one Kubernetes. Every method raises KubeError."""

    def __init__(
        self, api: "kubernetes.client.ApiClient | None", namespace: str, reader: Direct | None = None
    ) -> None:
        """A namespace.

        Args:
            api: None to connect when it is first used.
            reader: for simple requests without the Kubernetes client; None to use that for all.
        """
        self.namespace = namespace
        self._reader = reader
        if api is not None:
            self.api = api

    @classmethod
    def connect(cls, namespace: str | None = None, context: str | None = None) -> Self:
        """Connect as kubectl does: KUBECONFIG, else ~/.kube/config.

        Args:
            namespace: None for the context's own.
        """
        context = context or Typed.context
        if reader := direct.direct(context):
            return cls(None, namespace or reader.namespace or "default", reader)
        where = direct.kubeconfig()
        try:
            contexts, active = kubernetes.config.list_kube_config_contexts(where)
            if context is not None:
                active = next((each for each in contexts if each["name"] == context), None)
                if active is None:
                    there = ", ".join(sorted(each["name"] for each in contexts))
                    raise KubeError(f"there is no context {context} in the kubeconfig; there is {there}")
            api = kubernetes.config.new_client_from_config(where, context=active["name"])
        except (kubernetes.config.ConfigException, OSError, TypeError, KeyError) as error:
            raise KubeError(f"no usable kubeconfig: {error}; set KUBECONFIG") from error
        return cls(api, namespace or active["context"].get("namespace") or "default")

    @cached_property
    def api(self) -> "kubernetes.client.ApiClient":
        """The Kubernetes client, connected to what `connect` found."""
        context = self._reader.context if self._reader else None
        try:
            found: kubernetes.client.ApiClient = kubernetes.config.new_client_from_config(
                direct.kubeconfig(), context=context
            )
        except (kubernetes.config.ConfigException, OSError, TypeError, KeyError) as error:
            raise KubeError(f"no usable kubeconfig: {error}; set KUBECONFIG") from error
        return found

    @cached_property
    def _custom(self) -> "kubernetes.client.CustomObjectsApi":
        return kubernetes.client.CustomObjectsApi(self.api)

    @cached_property
    def _core(self) -> "kubernetes.client.CoreV1Api":
        return kubernetes.client.CoreV1Api(self.api)

    @cached_property
    def _batch(self) -> "kubernetes.client.BatchV1Api":
        return kubernetes.client.BatchV1Api(self.api)

    def raw_clusters(self) -> list[Json]:
        """The namespace's KafkaClusters, as the API server sends them."""
        return self._list("kafkaclusters")

    def raw_list(self, kind: str) -> list[Json]:
        """The namespace's objects of a kind of Spindle's, as the API server sends them."""
        return self._list(PLURALS[kind])

    def clusters(self) -> "list[KafkaCluster]":
        """The namespace's clusters."""
        from spindle.api.cluster import KafkaCluster  # noqa: PLC0415 - as above

        return [parsed(KafkaCluster, raw) for raw in self.raw_clusters()]

    def one_cluster(self, name: str | None) -> str:
        """The given name, or that of the namespace's only cluster."""
        if name:
            return name
        found = [str(cluster["metadata"]["name"]) for cluster in self.raw_clusters()]
        if len(found) == 1:
            return found[0]
        there = f"there are {', '.join(sorted(found))}" if found else "there is none"
        raise KubeError(f"which cluster in namespace {self.namespace}? {there}")

    def cluster(self, name: str) -> "KafkaCluster":
        """One cluster."""
        from spindle.api.cluster import KafkaCluster  # noqa: PLC0415 - as above

        return parsed(KafkaCluster, self.raw("KafkaCluster", name))

    def view(self, name: str) -> ClusterView:
        """A cluster with its brokers and controllers."""
        brokers = [each for each in self._list("kafkabrokers") if each["spec"].get("cluster") == name]
        selector = f"{names.LABEL_CLUSTER}={name},{names.LABEL_ROLE}={names.ROLE_CONTROLLER}"
        return ClusterView(
            self.raw("KafkaCluster", name),
            tuple(sorted(brokers, key=lambda each: int(each["spec"]["id"]))),
            tuple(sorted(self.pods(selector), key=lambda pod: str(pod["metadata"]["name"]))),
        )

    def broker(self, name: str) -> "KafkaBroker":
        """One broker."""
        from spindle.api.broker import KafkaBroker  # noqa: PLC0415 - as above

        return parsed(KafkaBroker, self.raw("KafkaBroker", name))

    def raw(self, kind: str, name: str) -> Json:
        """One object of a kind of Spindle's, as the API server sends it."""
        group, version, namespace, plural, name = self._place(kind, name)
        if self._reader is not None:
            there = self._read(self._reader, f"{kind} {name}", _path(group, version, namespace, plural, name))
        else:
            call = self._custom.get_namespaced_custom_object
            there = self.ask(f"{kind} {name}", call, group, version, namespace, plural, name)
        if not isinstance(there, dict):
            raise no_object(f"{kind} {name}")
        return there

    def _place(self, kind: str, name: str) -> tuple[str, str, str, str, str]:
        # In a URL they would be the path of another object, or of the list.
        if name in ("", ".", ".."):
            raise KubeError(f"{name!r} is no name of a {kind}")
        return names.GROUP, names.VERSION, self.namespace, PLURALS[kind], name

    def _patch(
        self,
        kind: str,
        name: str,
        body: Json | list[Json],
        content: str,
        manager: str = FIELD_MANAGER,
        *,
        force: bool | None = None,
    ) -> Json:
        """Change an object; ``force`` is for an apply, whose fields are checked, too."""
        place, what = self._place(kind, name), f"{kind} {name}"
        if self._reader is not None:
            query = {"fieldManager": manager}
            if force is not None:
                query |= {"force": str(force).lower(), "fieldValidation": "Strict"}
            return self._change(self._reader, what, "PATCH", _path(*place), body, query, content)
        options: Json = {} if force is None else {"force": force, "field_validation": "Strict"}
        call = self._custom.patch_namespaced_custom_object
        changed: Json = self.ask(
            what, call, *place, body, field_manager=manager, _content_type=content, **options
        )
        return changed

    def apply(self, body: Json, manager: str, *, force: bool = False) -> Json:
        """Server-side apply: the fields of ``body`` become this manager's, and its former ones are removed.

        Raises:
            ConflictError: others own one of the fields with another value, and ``force`` is not set.
        """
        kind, name = body["kind"], body["metadata"]["name"]
        return self._patch(kind, name, body, "application/apply-patch+yaml", manager, force=force)

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
        if self._reader is not None:
            return self._one(
                self._reader, f"ConfigMap {name}", _path("", "v1", self.namespace, "configmaps", name)
            )
        return self.answer(f"ConfigMap {name}", self._core.read_namespaced_config_map, name, self.namespace)

    def rebalances(self, cluster: str | None = None) -> "list[KafkaRebalance]":
        """Proposals, the oldest first.

        Args:
            cluster: None for those of all clusters of the namespace.
        """
        from spindle.api.rebalance import KafkaRebalance  # noqa: PLC0415 - as above

        found = [parsed(KafkaRebalance, raw) for raw in self._list("kafkarebalances")]
        mine = [each for each in found if cluster in (None, each.spec.cluster)]
        return sorted(mine, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))

    def rebalance(self, name: str) -> "KafkaRebalance":
        """One proposal."""
        from spindle.api.rebalance import KafkaRebalance  # noqa: PLC0415 - as above

        return parsed(KafkaRebalance, self.raw("KafkaRebalance", name))

    def change_rebalance(self, name: str, version: str, spec: Json) -> None:
        """Set a user's fields of a proposal, if it still has this resourceVersion; an empty version matches any."""
        metadata = {"resourceVersion": version} if version else {}
        body = {"metadata": metadata, "spec": spec}
        self._patch("KafkaRebalance", name, body, "application/merge-patch+json")

    def cron_job(self, name: str) -> Json:
        """One CronJob."""
        if self._reader is not None:
            return self._one(
                self._reader, f"CronJob {name}", _path("batch", "v1", self.namespace, "cronjobs", name)
            )
        return self.answer(f"CronJob {name}", self._batch.read_namespaced_cron_job, name, self.namespace)

    def create_job(self, manifest: Json) -> None:
        """Create a Job."""
        name = manifest["metadata"]["name"]
        if self._reader is not None:
            self._change(
                self._reader, f"Job {name}", "POST", _path("batch", "v1", self.namespace, "jobs"), manifest
            )
            return
        call = self._batch.create_namespaced_job
        self.ask(f"Job {name}", call, self.namespace, manifest, _preload_content=False)

    def pods(self, selector: str) -> list[Json]:
        """The namespace's pods with these labels."""
        if self._reader is not None:
            found = self._read(
                self._reader, "pods", _path("", "v1", self.namespace, "pods"), {"labelSelector": selector}
            )
            return _items("pods", found)
        call = self._core.list_namespaced_pod
        return list(self.answer("pods", call, self.namespace, label_selector=selector)["items"])

    def pod(self, name: str) -> Json:
        """One pod."""
        if self._reader is not None:
            return self._one(self._reader, f"pod {name}", _path("", "v1", self.namespace, "pods", name))
        return self.answer(f"pod {name}", self._core.read_namespaced_pod, name, self.namespace)

    def create_pod(self, manifest: Json) -> None:
        """Create a pod."""
        name = manifest["metadata"]["name"]
        if self._reader is not None:
            place = _path("", "v1", self.namespace, "pods")
            self._change(self._reader, f"pod {name}", "POST", place, manifest)
            return
        call = self._core.create_namespaced_pod
        self.ask(f"pod {name}", call, self.namespace, manifest, _preload_content=False)

    def delete_pod(self, name: str) -> None:
        """Delete a pod, if it exists."""
        try:
            if self._reader is not None:
                place = _path("", "v1", self.namespace, "pods", name)
                self._change(self._reader, f"pod {name}", "DELETE", place, {"gracePeriodSeconds": 0})
                return
            call = self._core.delete_namespaced_pod
            self.ask(
                f"pod {name}", call, name, self.namespace, grace_period_seconds=0, _preload_content=False
            )
        except NotFoundError:
            return

    def log(self, pod: str) -> Iterator[str]:
        """Lines of a pod's log, from its beginning, until its container ends or the connection does."""
        rest = b""
        try:
            for part in self._log(pod) if self._reader is None else self._log_read(self._reader, pod):
                *lines, rest = (rest + part).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in lines)
        except NoAnswerError:
            return  # what there is of the last line may be a part of it
        if rest:
            yield rest.decode("utf-8", "replace")

    def _log_read(self, reader: Direct, pod: str) -> Iterator[bytes]:
        place = _path("", "v1", self.namespace, "pods", pod) + "/log"
        try:
            found = reader.follow(place, {"follow": "true"})
        except NoAnswerError as error:
            raise KubeError(f"Kubernetes does not answer: {error}") from error
        if isinstance(found, Answer):
            raise self._refusal(f"log of pod {pod}", found.status, found.reason, found.body)
        return found

    def _log(self, pod: str) -> Iterator[bytes]:
        call = self._core.read_namespaced_pod_log
        answer = self.ask(
            f"log of pod {pod}",
            call,
            *(pod, self.namespace),
            follow=True,
            _preload_content=False,
            _request_timeout=(5, 3600),
        )
        try:
            yield from answer.stream(4096)
        except urllib3.exceptions.HTTPError as error:
            raise NoAnswerError(str(error)) from error
        finally:
            answer.release_conn()

    def _list(self, plural: str) -> list[Json]:
        if self._reader is not None:
            return _items(
                plural,
                self._read(self._reader, plural, _path(names.GROUP, names.VERSION, self.namespace, plural)),
            )
        call = self._custom.list_namespaced_custom_object
        return _items(plural, self.ask(plural, call, names.GROUP, names.VERSION, self.namespace, plural))

    def _read(self, reader: Direct, what: str, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Ask without the Kubernetes client."""
        try:
            answer = reader.get(path, query or {})
        except NoAnswerError as error:
            raise KubeError(f"Kubernetes does not answer: {error}") from error
        if answer.status >= 300:
            raise self._refusal(what, answer.status, answer.reason, answer.body)
        return json.loads(answer.body)

    def _one(self, reader: Direct, what: str, path: str) -> Json:
        found = self._read(reader, what, path)
        if not isinstance(found, dict):
            raise no_object(what)
        return found

    def _change(
        self,
        reader: Direct,
        what: str,
        method: str,
        path: str,
        body: Json | list[Json],
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Json:
        """Send something without the Kubernetes client; the API server's answer."""
        try:
            answer = reader.change(method, path, body, query, content)
        except NoAnswerError as error:
            raise KubeError(f"Kubernetes does not answer: {error}") from error
        if answer.status >= 300:
            raise self._refusal(what, answer.status, answer.reason, answer.body)
        found = json.loads(answer.body)
        if not isinstance(found, dict):
            raise no_object(what)
        return found

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
            raise self._refusal(what, error.status, error.reason, error.body) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeError(f"Kubernetes does not answer: {error}") from error

    def _refusal(self, what: str, status: int, reason: str, body: str | bytes | None) -> KubeError:
        """The error for an answer with a status that is no success."""
        said = _said(status, reason, body)
        if status == 404 and what.startswith("kafka"):
            return NotFoundError(
                f"the API server does not know {what}: install Spindle first (helm install spindle charts/spindle)"
            )
        if status == 404:
            return NotFoundError(f"there is no {what} in namespace {self.namespace}")
        if status == 409:
            return ConflictError(f"{what}: {said}", tuple(dict.fromkeys(_OWNER.findall(said))))
        if status == 422 and "metadata.uid" in said:
            return ReplacedError(f"{what} was deleted and created again meanwhile")
        if status in (400, 422):
            return InvalidError(f"{what}: {said}")
        return KubeError(f"{what}: {said}")


def _path(group: str, version: str, namespace: str, plural: str, name: str = "") -> str:
    """The path of an object, or of a list."""
    place = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{place}/namespaces/{quote(namespace, safe='')}/{plural}" + (
        f"/{quote(name, safe='')}" if name else ""
    )


def _items(what: str, answer: Any) -> list[Json]:
    if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
        raise no_object(what)
    return list(answer["items"])


def no_object(what: str) -> KubeError:
    """The error for an answer that is no object of Kubernetes."""
    return KubeError(
        f"the answer about {what} is no object of Kubernetes. Is the server of the kubeconfig a Kubernetes API server, or does a proxy answer in "
        "its place?"
    )


def parsed(model: "type[M]", raw: Any) -> "M":
    """An object of Spindle's as its model.

    Raises:
        KubeError: it has a form that this version does not know.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - as above

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


def _said(status: int, reason: str, body: str | bytes | None) -> str:
    """Error message of the API server."""
    try:
        return printable(str(json.loads(body or "")["message"]))
    except (TypeError, ValueError, KeyError):
        return f"{status} {reason}"
