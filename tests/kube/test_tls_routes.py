"""TLSRoutes at a real API server, before and after the CRDs of the Gateway API are installed there."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.build import ensure_gateway_api
from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.manifests.common import drifted, with_applied
from spindle.manifests.tls_routes import tls_route
from spindle.model.actions import Apply, Delete
from spindle_operator import tls_routes
from spindle_operator.kinds import TLS_ROUTE
from spindle_operator.kube import Kube
from tests.kube.samples import cluster as sample_cluster
from tests.kube.test_listeners import ROUTED, listener

pytestmark = pytest.mark.kube

_SPEC = KafkaClusterSpec.model_validate({**sample_cluster()["spec"], "listeners": [listener(**ROUTED)]})
_PLAIN = KafkaClusterSpec.model_validate({**sample_cluster()["spec"], "listeners": []})


@pytest.fixture
def crds(api_server: ApiServer) -> Iterator[Callable[[], None]]:
    """Installs TLSRoute, and removes it after the test."""
    path = str(ensure_gateway_api() / "gateway.networking.k8s.io_tlsroutes.yaml")

    def install() -> None:
        api_server.kubectl("apply", "--server-side", "-f", path)
        api_server.wait_established("-f", path)

    yield install
    api_server.kubectl("delete", "--ignore-not-found", "-f", path)


def route(cluster: dict[str, Any], host: str = "broker-0.kafka.example.com") -> dict[str, Any]:
    return with_applied(
        tls_route(cluster, _SPEC.listeners[0], "demo-broker-0-outside", host, port=9095, broker_id=0)
    )


async def test_routes_are_read_where_a_listener_or_a_service_needs_them(
    kube: Kube, cluster: dict[str, Any], crds: Callable[[], None], act: Callable[..., Any]
) -> None:
    problems: dict[str, str] = {}
    marked = [{"metadata": {"labels": {names.LABEL_ROUTED: "true"}}}]
    assert await tls_routes.look(kube, cluster, [_PLAIN], [], problems) == []
    assert await tls_routes.look(kube, cluster, [_SPEC], [], problems) is None
    assert await tls_routes.look(kube, cluster, [_PLAIN], marked, problems) is None
    crds()
    assert await tls_routes.look(kube, cluster, [_SPEC], [], problems) == []
    await act(Apply(object=route(cluster)))
    read = await tls_routes.look(kube, cluster, [_PLAIN], marked, problems)
    assert read is not None
    (found,) = read
    assert found["spec"]["hostnames"] == ["broker-0.kafka.example.com"]
    # The API server adds defaults; they are no drift.
    assert found["spec"]["parentRefs"][0]["kind"] == "Gateway"
    assert not drifted(route(cluster), found)
    assert problems == {}


async def test_a_route_is_changed_and_deleted_as_other_objects_are(
    kube: Kube, cluster: dict[str, Any], crds: Callable[[], None], act: Callable[..., Any]
) -> None:
    crds()
    namespace = cluster["metadata"]["namespace"]
    await act(Apply(object=route(cluster)))
    live = await kube.get(TLS_ROUTE, namespace, "demo-broker-0-outside")
    await act(Apply(object=route(cluster, "other.example.com"), seen=live))
    live = await kube.get(TLS_ROUTE, namespace, "demo-broker-0-outside")
    assert live["spec"]["hostnames"] == ["other.example.com"]
    assert live["metadata"]["ownerReferences"][0]["uid"] == cluster["metadata"]["uid"]
    await act(Delete(kind="TLSRoute", name="demo-broker-0-outside", uid=live["metadata"]["uid"]))
    assert await kube.find(TLS_ROUTE, namespace, "demo-broker-0-outside") is None
