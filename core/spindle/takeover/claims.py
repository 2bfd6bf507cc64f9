"""Decides whether a volume may get another claim ("no disk mistaken for another", `docs/safety.md`, rule 7).

Others may have changed claims and volumes since the take-over was planned: people, Strimzi, a second run of the command.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spindle.model import objects
from spindle.takeover.plan import DiskPlan

KubeObject = Mapping[str, Any]


@dataclass(frozen=True)
class ClaimChange:
    """A volume gets another claim.

    Attributes:
        disk: the volume, as planned.
        former: name of the claim that is deleted.
        claim: the claim that follows it.
    """

    disk: DiskPlan
    former: str
    claim: KubeObject

    @property
    def name(self) -> str:
        """Name of the claim that follows."""
        return str(self.claim["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Namespace of both claims."""
        return str(self.claim["metadata"]["namespace"])


@dataclass(frozen=True)
class ClaimFinding:
    """The decision for a `ClaimChange`.

    Attributes:
        refusal: why nothing may be changed; empty if it may.
        done: whether the volume has this claim already.
    """

    refusal: str = ""
    done: bool = False


def may_change(
    change: ClaimChange, claims: Mapping[str, KubeObject], volumes: Mapping[str, KubeObject]
) -> ClaimFinding:
    """Whether a volume may get another claim.

    Args:
        claims: of the namespace, by name.
        volumes: PersistentVolumes by name.
    """
    wanted = change.disk.volume
    volume = volumes.get(wanted)
    if volume is None:
        return ClaimFinding(f"volume {wanted} of claim {change.former} does not exist")
    for name in (change.name, change.former):
        found = claims.get(name)
        if found is not None and volume_of(found) != wanted:
            return ClaimFinding(
                f"claim {name} has {f'volume {volume_of(found)}' if volume_of(found) else 'no volume'}, but had {wanted} when the take-over was planned"
            )
    reference = reserved_for(volume)
    if reference not in ("", *(f"{change.namespace}/{name}" for name in (change.name, change.former))):
        return ClaimFinding(
            f"volume {wanted} is reserved for claim {reference}, not for {change.former}: set its claimRef back, or delete that claim if it is not needed"
        )
    there = claims.get(change.name)
    return ClaimFinding(
        done=there is not None and not objects.deleting(there) and change.former not in claims
    )


def may_have_moved(
    disk: DiskPlan, claims: Mapping[str, KubeObject], volumes: Mapping[str, KubeObject]
) -> bool:
    """Whether a volume has or had the claim with Spindle's name, so that its log dir may have been renamed."""
    reference = reserved_for(volumes.get(disk.volume, {}))
    return disk.becomes in claims or reference.rpartition("/")[2] == disk.becomes


def volume_of(claim: KubeObject) -> str:
    """The volume that a claim has or asks for; empty if it may be any."""
    return str((claim.get("spec") or {}).get("volumeName") or "")


def reserved_for(volume: KubeObject) -> str:
    """Namespace and name of the claim that a volume is reserved for, with a slash between them; empty if there is none."""
    reference = (volume.get("spec") or {}).get("claimRef") or {}
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""
