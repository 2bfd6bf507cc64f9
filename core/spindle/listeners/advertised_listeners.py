"""The advertised address of each broker's listeners: from Kubernetes, else the last one that was advertised."""

from spindle.api import names
from spindle.api.listeners import Listener, OAuth
from spindle.listeners.broker_listener import OAUTH, BrokerListener, Tokens
from spindle.listeners.external_types import EXTERNAL_TYPES
from spindle.listeners.own_certificates import is_there
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState


def listeners_of(state: ClusterState, broker: SnapshotObject) -> tuple[BrokerListener, ...]:
    """A broker's listeners whose address is known. An address that was advertised once stays until Kubernetes reports another one."""
    broker_id = int(broker["spec"]["id"])
    found = ((each, address_of(state, each, broker_id)) for each in state.spec.listeners)
    return tuple(
        BrokerListener(
            each.name,
            each.port,
            each.auth,
            address[0],
            address[1],
            each.tls,
            _limits(each),
            own_certificate=each.certificate is not None and is_there(state, each.name, broker_id),
            tokens=_tokens(each.oauth) if each.auth == OAUTH else None,
        )
        for each, address in found
        if address is not None
    )


def _tokens(oauth: OAuth | None) -> Tokens | None:
    if oauth is None:
        return None
    return Tokens(oauth.issuer, oauth.jwks, oauth.audience, oauth.principal_claim, oauth.ca_bundle or "")


def _limits(listener: Listener) -> tuple[tuple[str, str], ...]:
    """Source: Kafka's ``ConnectionQuotas``, which reads these with the prefix of the listener."""
    wanted = {
        "max.connections": listener.max_connections,
        "max.connection.creation.rate": listener.max_connection_creation_rate,
    }
    return tuple((key, str(value)) for key, value in wanted.items() if value is not None)


def address_of(state: ClusterState, listener: Listener, broker_id: int) -> tuple[str, int] | None:
    """Advertised host and port of a broker's listener; None while they are unknown."""
    if listener.type not in EXTERNAL_TYPES:
        return names.node_host(state.name, state.namespace, broker_id), listener.port
    service = service_of(state, listener, broker_id)
    return None if service is None else live_address(state, listener, broker_id) or told(service)


def service_of(state: ClusterState, listener: Listener, broker_id: int) -> SnapshotObject | None:
    """The Service of one broker's listener, None if it does not exist yet."""
    wanted = names.broker_listener_service(state.name, broker_id, listener.name)
    return state.services.get(wanted)


def live_address(state: ClusterState, listener: Listener, broker_id: int) -> tuple[str, int] | None:
    """Host and port of a broker's listener as Kubernetes reports them now."""
    service = service_of(state, listener, broker_id)
    return (
        None
        if service is None
        else EXTERNAL_TYPES[listener.type].address(state, listener, broker_id, service)
    )


def runs(pod: SnapshotObject, name: str) -> tuple[str | None, int] | None:
    """Type and port of a listener in a broker's pod; None if the pod was created without it.

    The type is None for a pod of an earlier version, which does not record it.
    """
    types = dict(
        each.split("=", 1)
        for each in (objects.annotation(pod, names.ANN_LISTENERS) or "").split()
        if "=" in each
    )
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name:
                return types.get(name), int(port["containerPort"])
    return None


def serves(state: ClusterState, made: SnapshotObject, *types: str) -> bool:
    """Whether brokers behind a listener's Service or TLSRoute were created with a listener of one of these types, or of an unknown type."""
    of = objects.labels(made)
    number, name = of.get(names.LABEL_NODE_ID, ""), of.get(names.LABEL_LISTENER, "")
    pods = [state.pods.get(int(number))] if number.isdecimal() else [state.pods.get(n) for n in state.brokers]
    found = (runs(pod, name) for pod in pods if pod is not None)
    return any(each is not None and each[0] in (None, *types) for each in found)


def told(service: SnapshotObject) -> tuple[str, int] | None:
    """The addresses that were advertised last."""
    host, _, port = (objects.annotation(service, names.ANN_ADVERTISED) or "").rpartition(" ")
    return (host, int(port)) if host and port.isdecimal() else None
