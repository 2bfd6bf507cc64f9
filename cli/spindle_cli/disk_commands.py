"""``spindle disk``: drain, cordon and release a disk, and accept the loss of its data."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from spindle.model.given_consent import NamedLoss, losses_named_in
from spindle_cli import completion, field_requests
from spindle_cli.cluster_commands import while_paused
from spindle_cli.consent import consent
from spindle_cli.copied import command
from spindle_cli.field_requests import FieldRequest
from spindle_cli.kube import Kube, KubeError
from spindle_cli.screen import say
from spindle_cli.terminal import Broker, Force, Namespace, sentences

if TYPE_CHECKING:  # the models take longer to import than the help takes
    from spindle.api.broker import KafkaBroker
    from spindle.api.cluster import KafkaCluster

app: Final = typer.Typer(no_args_is_help=True, help="One disk: drain, cordon, release, accept its loss.")

Disk = Annotated[
    str, typer.Argument(autocompletion=completion.disks, help="Name of the disk, for example disk0.")
]
_CORDON_SINCE: Final = (4, 3)


@app.command()
def drain(broker: Broker, disk: Disk, namespace: Namespace = None, force: Force = False) -> None:
    """Move all replicas off a disk and remove it from its broker; once it is Drained, it is empty and safe to pull."""
    with sentences():
        kube = Kube.connect(namespace)
        found = _broker_with(kube, broker, disk)
        _request(kube, found, disk, "Drained", force=force)
        say(
            f"{disk} of {broker} is drained: its replicas move to other disks. It is safe to pull when its state is Drained.\n"
            f"To use it again: {command(f'spindle disk release {broker} {disk}')}\nFollow it with: {command(f'spindle status {found.spec.cluster}')}"
            + while_paused(kube, found.spec.cluster)
        )


@app.command()
def cordon(broker: Broker, disk: Disk, namespace: Namespace = None, force: Force = False) -> None:
    """Place no new replica on a disk; its replicas stay. Needs Kafka 4.3 or later."""
    with sentences():
        kube = Kube.connect(namespace)
        found = _broker_with(kube, broker, disk)
        cannot_cordon(kube.cluster(found.spec.cluster), broker, disk)
        _request(kube, found, disk, "Cordoned", force=force)
        say(
            f"{disk} of {broker} takes no new replica.\nTo use it again: {command(f'spindle disk release {broker} {disk}')}"
            + while_paused(kube, found.spec.cluster)
        )


@app.command()
def release(broker: Broker, disk: Disk, namespace: Namespace = None, force: Force = False) -> None:
    """Use a drained or cordoned disk again."""
    with sentences():
        kube = Kube.connect(namespace)
        request = FieldRequest("KafkaBroker", broker, disk, {})
        path = ("maintenance", "disks", disk)
        if field_requests.withdraw_entry(kube, request, path, force=force):
            say(
                f"{disk} of {broker} is used again: replicas may be placed on it, and moves fill it."
                + while_paused(kube, kube.broker(broker).spec.cluster)
            )
        else:
            _broker_with(kube, broker, disk)
            say(f"{disk} of {broker} is neither drained nor cordoned; nothing was changed.")


@app.command("accept-loss")
def accept_loss(
    broker: Broker,
    disk: Disk,
    namespace: Namespace = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token of the loss, as DataAtRisk names it: accept without asking, if it is still this loss."
        ),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Remove the acceptance, for example one that is used up.")
    ] = False,
    force: Force = False,
) -> None:
    """Show which last replicas a failed disk has, and accept their loss after confirmation."""
    with sentences():
        kube = Kube.connect(namespace)
        what = f"loss-of-{disk}"
        if withdraw:
            request = FieldRequest("KafkaBroker", broker, what, {})
            path = ("acceptDataLoss", "disks", disk)
            gone = field_requests.withdraw_entry(kube, request, path, force=force)
            if not gone:
                _broker_with(kube, broker, disk)
            say(f"The acceptance for {disk} of {broker} is {'removed' if gone else 'not there'}.")
            return
        found = _broker_with(kube, broker, disk)
        loss = named_loss(kube.cluster(found.spec.cluster), found, disk, token)
        say(loss.text)
        consent(f"Accept that this data of {disk} of {broker} is lost permanently?", given=token)
        entry: dict[str, Any] = {"name": disk, "token": loss.token}
        request = FieldRequest("KafkaBroker", broker, what, {"acceptDataLoss": {"disks": [entry]}})
        field_requests.write(kube, request, found.metadata.uid or "", force=force)
        say(
            f"The loss is accepted ({loss.token}). Spindle first elects the most complete surviving replicas as leaders.\n"
            f"Follow it with: {command(f'spindle status {found.spec.cluster}')}"
            + while_paused(kube, found.spec.cluster)
        )


def named_loss(cluster: "KafkaCluster", owner: "KafkaBroker", disk: str, token: str | None) -> NamedLoss:
    """The loss that the status of the KafkaBroker, or of its cluster, names for a disk; the cluster's has no room for many.

    Raises:
        KubeError: it names none, or another than the token does.
    """
    name, broker = cluster.metadata.name, owner.metadata.name
    statuses = [each.conditions for each in (owner.status, cluster.status) if each]
    risks = [
        each.message
        for found in statuses
        for each in found
        if (each.type, each.status) == ("DataAtRisk", "True")
    ]
    losses = [loss for message in risks for loss in losses_named_in(message)]
    loss = next((each for each in losses if (each.broker, each.disk) == (broker, disk)), None)
    if loss is None:
        others = list(dict.fromkeys(f"{each.disk} of {each.broker}" for each in losses))
        said = f"it names {', '.join(others)}" if others else "it names no disk"
        raise KubeError(
            f"no loss to accept for {disk} of {broker}: the condition DataAtRisk of {name} names it when a last in-sync replica is on the failed disk; "
            f"{said}. If the disk has failed, Spindle replaces its replicas from the others without consent; see: {command(f'spindle status {name}')}"
        )
    if token is not None and token != loss.token:
        raise KubeError(
            f"the token is not that of the present loss. {loss.text} To accept this loss: "
            + command(f"spindle disk accept-loss {broker} {disk} --token {loss.token}")
        )
    return loss


def cannot_cordon(cluster: "KafkaCluster", broker: str, disk: str) -> None:
    """Raise KubeError if the cluster's Kafka has no cordons."""
    version = (cluster.status and cluster.status.version) or cluster.spec.version
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < _CORDON_SINCE:
        raise KubeError(
            f"Kafka {version} cannot cordon a disk; Kafka 4.3 can. Upgrade (spec.version), or empty the disk: {command(f'spindle disk drain {broker} {disk}')}"
        )


def _broker_with(kube: Kube, name: str, disk: str) -> "KafkaBroker":
    """The broker, if it has the disk."""
    broker = kube.broker(name)
    there = [each.name for each in broker.spec.disks]
    if disk not in there:
        raise KubeError(f"{name} has no disk {disk}; it has {', '.join(there) or 'none yet'}")
    return broker


def _request(kube: Kube, broker: "KafkaBroker", disk: str, state: str, *, force: bool) -> None:
    """Set the desired state of one disk."""
    entry = {"name": disk, "desiredState": state}
    request = FieldRequest("KafkaBroker", broker.metadata.name, disk, {"maintenance": {"disks": [entry]}})
    field_requests.write(kube, request, broker.metadata.uid or "", force=force)
