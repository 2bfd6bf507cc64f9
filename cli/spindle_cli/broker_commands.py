"""``spindle broker``: stop and start a broker, remove it first, say that its node is lost, allow a restart in a deadlock."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from spindle.model.given_consent import restart_named_in
from spindle.model.waiting import text_left_out
from spindle_cli import field_requests
from spindle_cli.cluster_commands import while_paused
from spindle_cli.consent import consent
from spindle_cli.copied import command
from spindle_cli.field_requests import FieldRequest
from spindle_cli.kube import Kube, KubeError
from spindle_cli.screen import say
from spindle_cli.terminal import Broker, Force, Namespace, sentences

if TYPE_CHECKING:  # the models take longer to import than the help takes
    from spindle.api.broker import KafkaBroker
    from spindle.api.cluster import KafkaCluster, WaitingEntry

app: Final = typer.Typer(
    no_args_is_help=True, help="One broker: stop, start, remove first, accept the loss of its node."
)


@app.command()
def stop(broker: Broker, namespace: Namespace = None, force: Force = False) -> None:
    """Stop one broker for maintenance, as soon as no partition falls below min.insync.replicas without it."""
    with sentences():
        cluster, note = _set(namespace, broker, "stopped", {"maintenance": {"stopped": True}}, force=force)
        say(
            f"{broker} stops as soon as the safety checks allow it, and stays stopped until: {command(f'spindle broker start {broker}')}\n"
            f"Follow it with: {command(f'spindle status {cluster}')}{note}"
        )


@app.command()
def start(broker: Broker, namespace: Namespace = None, force: Force = False) -> None:
    """Start a stopped broker."""
    with sentences():
        cluster, note = _set(namespace, broker, "stopped", {"maintenance": {"stopped": False}}, force=force)
        say(f"{broker} starts.\nFollow it with: {command(f'spindle status {cluster}')}{note}")


@app.command("remove-first")
def remove_first(
    broker: Broker,
    namespace: Namespace = None,
    undo: Annotated[bool, typer.Option("--undo", help="Do not prefer this broker any more.")] = False,
    force: Force = False,
) -> None:
    """When the pool is scaled in, remove this broker before others."""
    with sentences():
        fields = {"maintenance": {"removeFirst": not undo}}
        cluster, note = _set(namespace, broker, "remove-first", fields, force=force)
        say(
            f"{broker} is no longer removed before others.{note}"
            if undo
            else f"{broker} is removed first when replicas of its pool is lowered in KafkaCluster {cluster}.{note}"
        )


@app.command("node-lost")
def node_lost(
    broker: Broker,
    namespace: Namespace = None,
    yes: Annotated[
        str | None, typer.Option("--node", help="Name of the lost node: accept without asking.")
    ] = None,
    force: Force = False,
) -> None:
    """Accept that a broker's node, and its disks there, are lost permanently."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.broker(broker)
        node = found.spec.node
        if node is not None and found.spec.accept_data_loss and found.spec.accept_data_loss.node == node:
            say(
                f"The loss of node {node} is accepted for {broker} already; see: {command(f'spindle status {found.spec.cluster}')}"
            )
            return
        entry = lost_node_entry(kube.cluster(found.spec.cluster), found, yes)
        say(
            f"{_text_of(entry, found)}\nIf you accept it, the broker's replicas are copied from the others, and it starts empty on another node."
        )
        consent(f"Accept that node {node} and the disks of {broker} on it are lost permanently?", given=yes)
        request = FieldRequest("KafkaBroker", broker, "lost-node", {"acceptDataLoss": {"node": node}})
        field_requests.write(kube, request, found.metadata.uid or "", force=force)
        say(
            f"The loss of node {node} is accepted for {broker}.\nFollow it with: {command(f'spindle status {found.spec.cluster}')}"
            + while_paused(kube, found.spec.cluster)
        )


@app.command("accept-unavailable")
def accept_unavailable(
    broker: Broker,
    namespace: Namespace = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token of the entry RestartDeadlock: accept without asking, if it is still this one."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Resolve a restart deadlock: allow this restart, although partitions reject writes until the broker is back."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.broker(broker)
        entry, named = deadlock_entry(kube.cluster(found.spec.cluster), broker, token)
        say(f"{entry.message}\n{entry.unblocked_by}")
        consent(
            f"Allow the restart of {broker} although these partitions reject writes meanwhile?", given=token
        )
        request = FieldRequest("KafkaBroker", broker, "unavailable", {"acceptUnavailable": named})
        field_requests.write(kube, request, found.metadata.uid or "", force=force)
        say(
            f"{broker} restarts.\nFollow it with: {command(f'spindle status {found.spec.cluster}')}"
            + while_paused(kube, found.spec.cluster)
        )


def lost_node_entry(cluster: "KafkaCluster", broker: "KafkaBroker", node: str | None) -> "WaitingEntry":
    """The entry of the cluster's status that says that the broker's node is lost.

    Raises:
        KubeError: there is none, or the user names another node.
    """
    name, own = broker.metadata.name, broker.spec.node
    if own is None:
        raise KubeError(
            f"the volumes of {name} are on no node that could be lost; nothing was changed. What the broker waits for: "
            + command(f"spindle status {cluster.metadata.name}")
        )
    if node is not None and node != own:
        raise KubeError(f"{name} has its volumes on node {own}, not on {node}; nothing was changed")
    entries = {each.reason: each for each in _waiting(cluster) if each.object == f"KafkaBroker/{name}"}
    if still := entries.get("NodeStillReachable"):
        raise KubeError(f"{still.message} {still.unblocked_by}")
    if (entry := entries.get("NodeLost")) is None:
        if more := cluster.status and cluster.status.waiting_more:
            raise KubeError(
                f"the status of {cluster.metadata.name} has no room for {more} of the actions that wait, and does not say whether node {own} of {name} is lost; "
                "nothing was changed. Resolve entries that it lists, then run this command again"
            )
        raise KubeError(
            f"Spindle has no evidence that node {own} of {name} is lost. If it is, tell Kubernetes first: kubectl delete node {own}, or, while it is off: "
            f"kubectl taint node {own} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute. Then run this command again"
        )
    return entry


def deadlock_entry(cluster: "KafkaCluster", broker: str, token: str | None) -> "tuple[WaitingEntry, str]":
    """The entry of the cluster's status that names the broker's restart as the way out of a deadlock, and its token.

    Raises:
        KubeError: there is none, it names another broker or no token, or the given token is another.
    """
    name = cluster.metadata.name
    entry = next((each for each in _waiting(cluster) if each.reason == "RestartDeadlock"), None)
    if entry is None:
        raise KubeError(
            f"no brokers of {name} wait for each other to restart; see: {command(f'spindle status {name}')}"
        )
    named = restart_named_in(entry.unblocked_by)
    if named is None or named[0] != broker or token not in (None, named[1]):
        raise KubeError(
            f"this is not what the entry RestartDeadlock of {name} offers now. {entry.unblocked_by}"
        )
    return entry, named[1]


def _text_of(entry: "WaitingEntry", broker: "KafkaBroker") -> str:
    """What an entry about a lost node says, also where the status has no room for its text."""
    if not text_left_out(entry.message):
        return entry.message
    return (
        f"Spindle has evidence that node {broker.spec.node} is lost, and the disks of {broker.metadata.name} with it: the node no longer exists, or is tainted "
        f"node.kubernetes.io/out-of-service; to see which: kubectl get node {broker.spec.node}. The partitions of {broker.metadata.name} stay one replica short."
    )


def _waiting(cluster: "KafkaCluster") -> "list[WaitingEntry]":
    return list(cluster.status.waiting) if cluster.status else []


def _set(
    namespace: str | None, broker: str, what: str, fields: Mapping[str, Any], *, force: bool
) -> tuple[str, str]:
    """Set fields of a broker; returns the name of its cluster, and what to add to a message if that is paused."""
    kube = Kube.connect(namespace)
    found = kube.broker(broker)
    field_requests.write(
        kube, FieldRequest("KafkaBroker", broker, what, fields), found.metadata.uid or "", force=force
    )
    return found.spec.cluster, while_paused(kube, found.spec.cluster)
