"""``spindle abandon`` and ``spindle user abandon``: remove the finalizers of objects that are deleted, when no operator is left to do it."""

from typing import Annotated, Any, Final

import typer

from spindle.api import names
from spindle_cli import completion, objects
from spindle_cli.consent import consent
from spindle_cli.copied import command
from spindle_cli.doctor import installation, reading
from spindle_cli.kube import ConflictError, Json, Kube, KubeError, NotFoundError
from spindle_cli.objects import Kind, Objects
from spindle_cli.screen import say
from spindle_cli.terminal import Cluster, Namespace, sentences

_OWN: Final = f"{names.GROUP}/"

Name = Annotated[str | None, typer.Option(help="The name again: abandon it without asking.")]
NoOperator = Annotated[
    bool,
    typer.Option(
        "--no-operator",
        help="No operator runs; for users who may not list Deployments, with which the command makes sure.",
    ),
]


def abandon(
    cluster: Cluster = None, namespace: Namespace = None, name: Name = None, no_operator: NoOperator = False
) -> None:
    """Let the deletion of a KafkaCluster end although no operator is installed any more. Its claims stay."""
    with sentences():
        kube = Kube.connect(namespace)
        chosen = kube.one_cluster(cluster)
        found = Objects(kube)
        parts = _parts(found, chosen)
        if not parts:
            raise KubeError(
                f"there is no KafkaCluster {chosen}, nor a KafkaBroker of it that is being deleted"
            )
        _same_name(chosen, name)
        # Of a KafkaCluster that is gone, an operator ends nothing.
        if not no_operator and found.find(objects.CLUSTER, chosen) is not None:
            no_operator_left(kube)
        if pods := kube.pods(f"{names.LABEL_CLUSTER}={chosen}"):
            there = ", ".join(sorted(str(each["metadata"]["name"]) for each in pods))
            raise KubeError(
                f"{there} may still write to the disks; nothing was changed. Delete the pods first: "
                + command(f"kubectl delete pod -l {names.LABEL_CLUSTER}={chosen}")
            )
        said = [f"{kind.name} {obj['metadata']['name']}" for kind, obj in parts]
        say(
            f"Spindle's finalizers are removed from {', '.join(said)}.\n"
            "The claims, their volumes and the identity record stay: the KafkaCluster can be applied again, and finds its data."
        )
        consent(f"Abandon {chosen}?", given=name)
        for kind, obj in parts:
            _remove(found, kind, obj)
        say(f"{chosen} is abandoned.")


def abandon_user(
    user: Annotated[
        str, typer.Argument(autocompletion=completion.users, help="KafkaUser that is being deleted.")
    ],
    namespace: Namespace = None,
    name: Name = None,
    no_operator: NoOperator = False,
) -> None:
    """Let the deletion of a KafkaUser end although no operator is installed any more. In Kafka, its rights stay."""
    with sentences():
        kube = Kube.connect(namespace)
        found = Objects(kube).get(objects.USER, user)
        _being_deleted(objects.USER, found, "sku")
        _same_name(user, name)
        if not no_operator:
            no_operator_left(kube)
        say(
            f"In Kafka, nothing of {user} is removed and nothing is denied: its ACLs, quotas and password stay, and its certificate stays valid until it "
            "expires. Remove them with Kafka's tools, or replace the CA."
        )
        consent(f"Abandon KafkaUser {user}?", given=name)
        _remove(Objects(kube), objects.USER, found)
        say(f"{user} is abandoned.")


def no_operator_left(kube: Kube) -> None:
    """Raise KubeError if an operator manages the namespace: it removes the finalizers itself, after what they are for."""
    try:
        found = reading.operators(kube)
    except KubeError as error:
        raise KubeError(
            f"whether an operator manages namespace {kube.namespace} is not known; nothing was changed: {error}. If you know that none does, repeat the "
            "command with --no-operator"
        ) from error
    mine = [each["metadata"] for each in found if installation.manages(each, kube.namespace)]
    if mine:
        there = ", ".join(f"{each['namespace']}/{each['name']}" for each in mine)
        raise KubeError(
            f"operator {there} manages namespace {kube.namespace}, and ends the deletion itself when everything is stopped; nothing was changed. "
            f"What it waits for: {command('spindle status')}; whether it works: {command('spindle doctor')}"
        )


def _parts(found: Objects, cluster: str) -> list[tuple[Kind, Json]]:
    """What has finalizers of Spindle's for a cluster that is being deleted, the KafkaCluster last.

    Raises:
        KubeError: the KafkaCluster is not being deleted.
    """
    top = found.find(objects.CLUSTER, cluster)
    if top is not None:
        _being_deleted(objects.CLUSTER, top, "skc")
    brokers = [each for each in found.every(objects.BROKER) if each["spec"].get("cluster") == cluster]
    users = [
        (kind, each)
        for kind in (objects.TOPIC, objects.USER)
        for each in found.every(kind)
        if each["spec"].get("cluster") == cluster
    ]
    if top is None:  # only what waits for nothing but its finalizer
        brokers = [each for each in brokers if each["metadata"].get("deletionTimestamp")]
        users = [(kind, each) for kind, each in users if each["metadata"].get("deletionTimestamp")]
    parts = [
        *users,
        *((objects.BROKER, each) for each in brokers),
        *([(objects.CLUSTER, top)] if top is not None else []),
    ]
    return [(kind, each) for kind, each in parts if _own(each)]


def _own(obj: Json) -> list[str]:
    return [each for each in obj["metadata"].get("finalizers") or () if each.startswith(_OWN)]


def _being_deleted(kind: Kind, obj: Json, short: str) -> None:
    name = obj["metadata"]["name"]
    if not obj["metadata"].get("deletionTimestamp"):
        raise KubeError(
            f"{kind.name} {name} is not being deleted; nothing was changed. To delete it: "
            + command(f"kubectl delete {short} {name}")
        )


def _same_name(name: str, given: str | None) -> None:
    if given not in (None, name):
        raise KubeError(f"--name names {given}, the command {name}; nothing was changed")


def _remove(found: Objects, kind: Kind, obj: Json) -> None:
    """Remove Spindle's finalizers, unless the object changed since it was read or is gone."""
    metadata: dict[str, Any] = {
        "resourceVersion": obj["metadata"]["resourceVersion"],
        "finalizers": [each for each in obj["metadata"]["finalizers"] if not each.startswith(_OWN)],
    }
    try:
        found.patch(kind, obj["metadata"]["name"], {"metadata": metadata})
    except NotFoundError:
        return
    except ConflictError as error:
        raise KubeError(
            f"{kind.name} {obj['metadata']['name']} changed meanwhile: run the command again"
        ) from error
