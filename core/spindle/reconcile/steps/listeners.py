"""The Services of the listeners, and the addresses that clients are told."""

from typing import Any, Final

from spindle.api.listeners import Listener
from spindle.cluster import names
from spindle.cluster.listeners import Door
from spindle.manifests.services import broker_listener_service, listener_service
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, Patch
from spindle.reconcile.doors import doors_of, live_address, node_of, service_of, told
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State

_MOST_NAMED: Final = 16  # addresses of brokers that clients start from: any one of them will do


def listener_services(state: State) -> list[Object]:
    """The Services that the spec's listeners need."""
    wanted: list[Object] = []
    for listener in state.spec.listeners:
        if listener.type == "internal":
            wanted.append(listener_service(state.cluster, listener))
        else:
            wanted += [broker_listener_service(state.cluster, listener, n) for n in state.brokers]
    return wanted


def settle_listeners(state: State, draft: Draft) -> None:
    """Write down the addresses that clients are told, say which are not known, and take away Services of listeners that are gone."""
    for listener in state.spec.listeners:
        if listener.type != "internal":
            for broker_id in state.brokers:
                _settle_address(state, draft, listener, broker_id)
    wanted = {objects.name(service) for service in listener_services(state)}
    for service in state.snap.services:
        if names.LABEL_LISTENER in objects.labels(service) and objects.name(service) not in wanted:
            _remove(draft, service)


def listener_status(state: State) -> list[dict[str, Any]]:
    """``status.listeners``: where clients start from."""
    doors = [door for broker in state.brokers.values() for door in doors_of(state, broker)]
    return [
        {"name": each.name, "bootstrap": _bootstrap(state, each, doors)}
        for each in sorted(state.spec.listeners, key=lambda listener: listener.name)
    ]


def _bootstrap(state: State, listener: Listener, doors: list[Door]) -> str:
    if listener.type == "internal":
        return f"{names.listener_service(state.name, listener.name)}.{state.namespace}.svc:{listener.port}"
    return ",".join([door.address for door in doors if door.name == listener.name][:_MOST_NAMED])


def _settle_address(state: State, draft: Draft, listener: Listener, broker_id: int) -> None:
    service = service_of(state, listener, broker_id)
    if service is None:
        return  # it is made in this pass
    live, last = live_address(state, listener, broker_id), told(service)
    if live is None and last is None:
        draft.wait(_unknown(state, listener, broker_id))
    elif live is not None and live != last:
        before = f" in place of {last[0]}:{last[1]}" if last else ""
        draft.do(
            Patch(
                kind="Service",
                name=objects.name(service),
                uid=objects.uid(service),
                body={"metadata": {"annotations": {names.ANN_ADVERTISED: f"{live[0]} {live[1]}"}}},
                reason="ListenerAddress",
                message=f"Clients of listener {listener.name} find {names.broker_name(state.name, broker_id)} at "
                f"{live[0]}:{live[1]}{before}; the broker is restarted for it if it runs.",
            )
        )


def _unknown(state: State, listener: Listener, broker_id: int) -> Wait:
    broker = names.broker_name(state.name, broker_id)
    service = names.broker_listener_service(state.name, broker_id, listener.name)
    if listener.type == "loadbalancer":
        why = f"The load balancer of {service} has no address yet"
        way = "Whoever makes load balancers in this cluster gives the Service an address; kubectl describe says what it waits for."
    else:
        place = node_of(state, broker_id)
        which = listener.address_label or " or ".join(listener.address_types or ("ExternalIP", "InternalIP"))
        why = (
            f"Node {place} has no address by {which}"
            if place
            else f"It is not known yet on which node {broker} is"
        )
        way = (
            "The node gets the label or the address, or the listener names another one (addressTypes, addressLabel)."
            if place
            else "The broker's pod is scheduled."
        )
    return Wait(
        "OpenListener",
        f"Service/{service}",
        "NoAddressYet",
        f"{why}, so {broker} runs without listener {listener.name}.",
        f"{way} The broker is restarted then.",
        quiet=listener.type == "nodeport" and node_of(state, broker_id) is None,
    )


def _remove(draft: Draft, service: Object) -> None:
    if not objects.deleting(service):
        draft.do(
            Delete(
                kind="Service",
                name=objects.name(service),
                uid=objects.uid(service),
                reason="ListenerRemoved",
                message=f"Service {objects.name(service)} is deleted: no listener needs it any more.",
            )
        )
