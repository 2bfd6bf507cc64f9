"""TLSRoutes of the Gateway API: which Gateway passes TLS connections for a host name on to which Service."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.listeners import Listener
from spindle.model.metadata import owned_metadata

API_VERSION: Final = "gateway.networking.k8s.io/v1"


def tls_route(
    cluster: Mapping[str, Any],
    listener: Listener,
    service: str,
    host: str,
    *,
    port: int,
    broker_id: int | None = None,
) -> dict[str, Any]:
    """The TLSRoute with the name of a Service and one host.

    Args:
        cluster: the KafkaCluster object.
        listener: of type tlsroute.
        service: name of the Service that it leads to.
        host: that clients name in the TLS handshake (SNI).
        port: of the Service.
        broker_id: of the broker; None for the bootstrap address.
    """
    metadata = owned_metadata(cluster, service, role=names.ROLE_BROKER)
    metadata["labels"][names.LABEL_LISTENER] = listener.name
    if broker_id is not None:
        metadata["labels"][names.LABEL_NODE_ID] = str(broker_id)
    parents = [each.model_dump(by_alias=True, exclude_none=True) for each in listener.parent_refs or ()]
    return {
        "apiVersion": API_VERSION,
        "kind": "TLSRoute",
        "metadata": metadata,
        "spec": {
            "parentRefs": parents,
            "hostnames": [host],
            "rules": [{"backendRefs": [{"name": service, "port": port}]}],
        },
    }
