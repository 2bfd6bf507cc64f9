"""A thin hand for tests: raw dicts in, raw dicts out, and refusals as the causes that the API server names."""

import json
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from spindle.api.names import GROUP, VERSION

PLURALS = {
    "KafkaCluster": "kafkaclusters",
    "KafkaBroker": "kafkabrokers",
    "KafkaRebalance": "kafkarebalances",
    "KafkaUser": "kafkausers",
    "KafkaTopic": "kafkatopics",
}


@dataclass(frozen=True)
class Refusal:
    """What the API server said.

    Attributes:
        causes: path of the field → messages about it; empty for refusals that are about no single field.
    """

    code: int
    message: str
    causes: dict[str, tuple[str, ...]]


class Resources:
    """Spindle's resources in one namespace of a real API server."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self.namespace = namespace
        self._objects: Any = client.CustomObjectsApi(api)  # its answers are typed as object

    def create(self, thing: dict[str, Any], *, dry: bool = False) -> dict[str, Any]:
        """Create an object, refusing fields that the schema does not know."""
        made: dict[str, Any] = self._objects.create_namespaced_custom_object(
            *self._place(thing), thing, field_validation="Strict", dry_run="All" if dry else None
        )
        return made

    def update(self, thing: dict[str, Any], *, dry: bool = False) -> dict[str, Any]:
        """Replace an object."""
        made: dict[str, Any] = self._objects.replace_namespaced_custom_object(
            *self._place(thing),
            thing["metadata"]["name"],
            thing,
            field_validation="Strict",
            dry_run="All" if dry else None,
        )
        return made

    def apply(self, thing: dict[str, Any], manager: str, *, force: bool = False) -> dict[str, Any]:
        """Server-side apply."""
        made: dict[str, Any] | None = self._objects.patch_namespaced_custom_object(
            *self._place(thing),
            thing["metadata"]["name"],
            thing,
            field_manager=manager,
            force=force,
            field_validation="Strict",
            _content_type="application/apply-patch+yaml",
        )
        # The client drops the body of a 201, the answer to an apply that creates.
        return made or self.get(thing)

    def report(self, thing: dict[str, Any], manager: str) -> dict[str, Any]:
        """Server-side apply of the status."""
        made: dict[str, Any] = self._objects.patch_namespaced_custom_object_status(
            *self._place(thing),
            thing["metadata"]["name"],
            thing,
            field_manager=manager,
            force=True,
            _content_type="application/apply-patch+yaml",
        )
        return made

    def get(self, thing: dict[str, Any]) -> dict[str, Any]:
        """Read an object again."""
        made: dict[str, Any] = self._objects.get_namespaced_custom_object(
            *self._place(thing), thing["metadata"]["name"]
        )
        return made

    def _place(self, thing: dict[str, Any]) -> tuple[str, str, str, str]:
        return GROUP, VERSION, self.namespace, PLURALS[thing["kind"]]


def refusal(error: ApiException) -> Refusal:
    """What an exception of the client says of a refusal."""
    body = json.loads(error.body or "{}")
    causes: dict[str, tuple[str, ...]] = {}
    for cause in (body.get("details") or {}).get("causes") or ():
        if "field" in cause:
            causes[cause["field"]] = (*causes.get(cause["field"], ()), cause["message"])
    return Refusal(error.status, body["message"], causes)
