"""``spindle volume``: PersistentVolumes after their claims: use one again, keep one for a restored claim, retain one."""

import re
from typing import Annotated, Any, Final

import typer

from spindle_cli import objects
from spindle_cli.consent import consent
from spindle_cli.copied import in_namespace
from spindle_cli.kube import ConflictError, Json, Kube, KubeError
from spindle_cli.objects import Objects
from spindle_cli.screen import say
from spindle_cli.terminal import sentences

app: Final = typer.Typer(
    no_args_is_help=True, help="PersistentVolumes without their claims: reuse, rebind, retain."
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
    """Let a volume that a removed disk left be bound again, after its file system was wiped."""
    with sentences():
        kube = Kube.connect(None)
        found, was = _released(kube, volume)
        if claim not in (None, was["name"]):
            raise KubeError(f"{volume} was of claim {was['name']}, not of {claim}; nothing was changed")
        if not was.get("uid"):
            raise KubeError(
                f"{volume} is reserved for claim {was['name']} in namespace {was['namespace']}, which Spindle creates or somebody restores; nothing was changed"
            )
        kube.namespace = was["namespace"]
        _not_needed(kube, volume, was["name"])
        say(
            f"{volume} was of claim {was['name']} in namespace {was['namespace']}. Wipe its file system first: Spindle formats no disk that has files of another."
        )
        consent(f"Is the data on {volume} not needed any more?", given=claim)
        _change(kube, found, {"claimRef": None})
        say(f"{volume} can be bound again. A disk on it is used once its file system is blank.")


@app.command()
def rebind(volume: Volume) -> None:
    """Keep a volume, with its data, for a restored claim of the name that had it."""
    with sentences():
        kube = Kube.connect(None)
        found, was = _released(kube, volume)
        if not was.get("uid"):
            say(
                f"{volume} is kept for claim {was['name']} in namespace {was['namespace']} already; nothing was changed."
            )
            return
        _change(kube, found, {"claimRef": {"uid": None, "resourceVersion": None}})
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
        _change(kube, found, {"persistentVolumeReclaimPolicy": "Retain"})
        say(f"{volume} stays when its claim is deleted.")


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


def _change(kube: Kube, volume: Json, spec: dict[str, Any]) -> None:
    """Change a volume, unless it changed since it was read."""
    metadata = {"resourceVersion": volume["metadata"]["resourceVersion"]}
    try:
        Objects(kube).patch(objects.VOLUME, volume["metadata"]["name"], {"metadata": metadata, "spec": spec})
    except ConflictError as error:
        raise KubeError(
            f"PersistentVolume {volume['metadata']['name']} changed meanwhile: run the command again"
        ) from error
