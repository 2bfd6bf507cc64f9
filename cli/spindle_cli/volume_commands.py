"""``spindle volume``: PersistentVolumes without their claims: use one again, keep one for a restored claim, retain one, forget one that is gone."""

import re
from typing import Annotated, Any, Final

import typer

from spindle.api import names
from spindle_cli import objects
from spindle_cli.cluster_commands import while_paused
from spindle_cli.consent import consent
from spindle_cli.copied import command, in_namespace
from spindle_cli.kube import ConflictError, Json, Kube, KubeError
from spindle_cli.objects import Kind, Objects
from spindle_cli.screen import say
from spindle_cli.terminal import Namespace, sentences

app: Final = typer.Typer(
    no_args_is_help=True, help="PersistentVolumes without their claims: reuse, rebind, retain, forget."
)

Volume = Annotated[str, typer.Argument(help="PersistentVolume, for example node1-disk2.")]
_OF_SPINDLE: Final = re.compile(r"data-.+-\d+")  # a claim of a broker's disk
_NEEDED: Final = ("AllDisksLost", "ClaimMissing", "ClaimLost")  # reasons to bring back a claim with its data


@app.command()
def reuse(
    volume: Volume,
    claim: Annotated[
        str | None,
        typer.Option(help="Name of the claim that had the volume: give up its data without asking."),
    ] = None,
) -> None:
    """Let a volume be bound again that a removed disk left, after its file system was wiped, or that is reserved for a claim that does not exist."""
    with sentences():
        kube = Kube.connect(None)
        found, was = _released(kube, volume)
        if claim not in (None, was["name"]):
            raise KubeError(f"{volume} was of claim {was['name']}, not of {claim}; nothing was changed")
        kube.namespace = was["namespace"]
        if not was.get("uid"):
            _not_awaited(kube, volume, was)
        _not_needed(kube, volume, was["name"])
        whose = f"claim {was['name']} in namespace {was['namespace']}"
        wipe = "Wipe its file system first: Spindle formats no disk that has files of another."
        if was.get("uid"):
            say(f"{volume} was of {whose}. {wipe}")
        elif was.get("fieldPath") == names.RESERVED:
            say(
                f"{volume} is reserved for {whose}, which never had it: Spindle reserved it for a disk that no broker has any more."
            )
        else:
            say(f"{volume} is kept for {whose}, which may have had it. {wipe}")
        consent(f"Is the data on {volume} not needed any more?", given=claim)
        _change(kube, objects.VOLUME, found, {"claimRef": None})
        say(f"{volume} can be bound again. A disk on it is used once its file system is blank.")


@app.command()
def rebind(volume: Volume) -> None:
    """Keep a volume, with its data, for a restored claim of the name that had it."""
    with sentences():
        kube = Kube.connect(None)
        found, was = _released(kube, volume)
        if not was.get("uid") and was.get("fieldPath") != names.RESERVED:
            say(
                f"{volume} is kept for claim {was['name']} in namespace {was['namespace']} already; nothing was changed."
            )
            return
        # Without the mark of a volume that Spindle reserved for a new disk, Spindle does not release it.
        nobody = {"uid": None, "resourceVersion": None, "fieldPath": None}
        _change(kube, objects.VOLUME, found, {"claimRef": nobody})
        say(
            f"{volume} is kept, with its data, for claim {was['name']} in namespace {was['namespace']}.\n"
            f"Now apply that claim with spec.volumeName: {volume}, without annotations that begin with pv.kubernetes.io/."
        )


@app.command()
def retain(volume: Volume) -> None:
    """Keep a volume when its claim is deleted."""
    with sentences():
        kube = Kube.connect(None)
        found = _volume(kube, volume)
        if found["spec"].get("persistentVolumeReclaimPolicy") == "Retain":
            say(f"{volume} is retained already; nothing was changed.")
            return
        _change(kube, objects.VOLUME, found, {"persistentVolumeReclaimPolicy": "Retain"})
        say(f"{volume} stays when its claim is deleted.")


@app.command()
def forget(
    volume: Volume,
    namespace: Namespace = None,
    broker: Annotated[
        str | None,
        typer.Option(help="KafkaBroker whose new disk was to get the volume: forget it without asking."),
    ] = None,
) -> None:
    """Let Spindle choose another volume for a new disk whose volume was deleted for good before the disk had its claim."""
    with sentences():
        kube = Kube.connect(namespace)
        _gone(kube, volume)
        record, disks = _recorded(kube, volume, broker)
        name, cluster = str(record["metadata"]["name"]), str(record["spec"]["cluster"])
        say(
            f"{' and '.join(disks)} of {name} was to get {volume}, which does not exist. Without it on record, Spindle chooses another volume, or none."
        )
        consent(f"Is {volume} gone for good?", given=broker)
        _gone(kube, volume)  # it may have been created again while the question was open
        left = [
            {key: value for key, value in each.items() if each["name"] not in disks or key != "pv"}
            for each in record["spec"]["disks"]
        ]
        _change(kube, objects.BROKER, record, {"disks": left})
        say(
            f"{volume} is removed from the record of {name}.\nFollow it with: {command(f'spindle status {cluster}')}"
            + while_paused(kube, cluster)
        )


def _gone(kube: Kube, name: str) -> None:
    """Raise KubeError if a volume exists: the operator may have reserved it for the disk."""
    found = Objects(kube).find(objects.VOLUME, name)
    if found is None:
        return
    if found["metadata"].get("deletionTimestamp"):
        raise KubeError(
            f"PersistentVolume {name} is being deleted; nothing was changed. Run the command again when it is gone"
        )
    phase = (found.get("status") or {}).get("phase", "Unknown")
    raise KubeError(
        f"PersistentVolume {name} exists (it is {phase}); nothing was changed. Spindle uses it once it is Available, and chooses another volume by itself "
        "if it has another StorageClass, belongs to another claim, or is not on the broker's node. If its disk is gone, delete it first: "
        + in_namespace(f"kubectl delete pv {name}", None)
    )


def _recorded(kube: Kube, volume: str, broker: str | None) -> tuple[Json, list[str]]:
    """The KafkaBroker that has a volume on record for a new disk, and the names of its disks that have it.

    Args:
        kube: of the namespace.
        volume: its name.
        broker: the KafkaBroker that the command line names.

    Raises:
        KubeError: none has it, several have it, or only a disk that was in use has it.
    """
    new: dict[str, tuple[Json, list[str]]] = {}
    used = []
    for each in kube.raw_list("KafkaBroker"):
        name = str(each["metadata"]["name"])
        for disk in each["spec"].get("disks") or () if broker in (None, name) else ():
            if disk.get("pv") == volume and disk.get("pvUid"):
                used.append((each["spec"]["cluster"], f"{disk['name']} of {name}"))
            elif disk.get("pv") == volume:
                new.setdefault(name, (each, []))[1].append(str(disk["name"]))
    if len(new) == 1:
        return new.popitem()[1]
    if new:
        raise KubeError(
            f"{', '.join(sorted(new))} have {volume} on record; nothing was changed. Choose one with --broker"
        )
    if used:
        cluster, disk = used[0]
        raise KubeError(
            f"{volume} was bound to {disk} and is on record with its UID; nothing was changed. What the disk waits for: "
            + command(f"spindle status {cluster}")
        )
    whose = (
        f"KafkaBroker {broker} has no disk"
        if broker
        else f"no KafkaBroker in namespace {kube.namespace} has a disk"
    )
    raise KubeError(f"{whose} with {volume} on record; nothing was changed")


def _volume(kube: Kube, name: str) -> Json:
    found = Objects(kube).find(objects.VOLUME, name)
    if found is None:
        raise KubeError(f"there is no PersistentVolume {name}")
    return found


def _released(kube: Kube, name: str) -> tuple[Json, Json]:
    """A volume without its claim, and its reference to that.

    Raises:
        KubeError: it has its claim, has no reference, or was no disk of a broker.
    """
    found = _volume(kube, name)
    was = found["spec"].get("claimRef")
    phase = (found.get("status") or {}).get("phase", "Unknown")
    if not was:
        raise KubeError(f"{name} is reserved for no claim (it is {phase}); nothing was changed")
    if not _OF_SPINDLE.fullmatch(was["name"]):
        raise KubeError(
            f"{name} was of claim {was['name']} in namespace {was['namespace']}, which is no disk of a broker; nothing was changed"
        )
    if was.get("uid") and phase != "Released":
        raise KubeError(
            f"{name} is {phase}, with claim {was['name']} in namespace {was['namespace']}; nothing was changed. Spindle deletes the claim of a disk that the "
            "spec removes, or that is drained: " + in_namespace("spindle status", was["namespace"])
        )
    return found, was


def _not_awaited(kube: Kube, volume: str, was: Json) -> None:
    """Raise KubeError if the claim for which a volume is reserved gets it, or Spindle is about to create that claim."""
    there = Objects(kube).find(objects.CLAIM, was["name"])
    whose = f"claim {was['name']} in namespace {was['namespace']}"
    if there is not None and (there.get("spec") or {}).get("volumeName") in (None, "", volume):
        raise KubeError(f"{volume} is reserved for {whose}, which exists and gets it; nothing was changed")
    if there is not None or was.get("fieldPath") != names.RESERVED:
        return
    for broker in kube.raw_list("KafkaBroker"):
        for disk in broker["spec"].get("disks") or ():
            if disk["claim"] == was["name"]:
                raise KubeError(
                    f"{volume} is reserved for {whose}, which Spindle creates for {disk['name']} of {broker['metadata']['name']}; nothing was changed. If that "
                    "disk is not needed any more, Spindle releases the volume by itself: "
                    + command(f"spindle status {broker['spec']['cluster']}")
                )


def _not_needed(kube: Kube, volume: str, claim: str) -> None:
    """Raise KubeError if a KafkaCluster waits for what is on the volume."""
    for cluster in kube.raw_clusters():
        for entry in (cluster.get("status") or {}).get("waiting") or ():
            text = f"{entry.get('object')} {entry['message']} {entry.get('unblockedBy')}"
            if entry["reason"] in _NEEDED and (_word(claim, text) or _word(volume, text)):
                raise KubeError(
                    f"KafkaCluster {cluster['metadata']['name']} waits for the data of {claim} ({entry['reason']}); nothing was changed. "
                    f"{entry.get('unblockedBy')}"
                )


def _word(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None


def _change(kube: Kube, kind: Kind, found: Json, spec: dict[str, Any]) -> None:
    """Change an object, unless it changed since it was read."""
    name, metadata = found["metadata"]["name"], {"resourceVersion": found["metadata"]["resourceVersion"]}
    try:
        Objects(kube).patch(kind, name, {"metadata": metadata, "spec": spec})
    except ConflictError as error:
        raise KubeError(f"{kind.name} {name} changed meanwhile: run the command again") from error
