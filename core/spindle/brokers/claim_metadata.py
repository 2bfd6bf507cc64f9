"""The labels and annotations that users add to claims: set on existing claims as well, and removed when the spec no longer has them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.pod_template import TemplateMetadata
from spindle.manifests import template_rules as rules
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.layout import METADATA_DISK
from spindle.model.ownership import OWN
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState

_KIND: Final = "PersistentVolumeClaim"
ANN_ADDED: Final = f"{names.GROUP}/added-metadata"  # the keys that were set for the spec, by part, as JSON
_PARTS: Final = ("annotations", "labels")


def reconcile_claim_metadata(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Patch the claims of brokers and controllers whose labels or annotations differ from the spec's."""
    for claim, metadata in _claims(state, identity):
        change = _change(claim, metadata)
        if not change or objects.deleting(claim) or (_KIND, OWN, objects.name(claim)) in state.taken:
            continue
        body = {"metadata": change}
        # What a webhook says of a user's label must not keep the pass from its work.
        builder.do(Patch(kind=_KIND, name=objects.name(claim), uid=objects.uid(claim), body=body, alone=True))


def _claims(
    state: ClusterState, identity: NodeIdentity
) -> Iterator[tuple[SnapshotObject, TemplateMetadata | None]]:
    for voter in identity.members:
        if (own := state.claim(voter.id, METADATA_DISK)) is not None:
            yield own, state.spec.controllers.claim_metadata
    for broker in state.brokers.values():
        pool = state.pool_of(broker)
        for disk in disks_of(broker):
            claim = state.claims.get(disk["claim"])
            if pool is not None and claim is not None:
                yield claim, pool.claim_metadata


def _change(claim: SnapshotObject, metadata: TemplateMetadata | None) -> dict[str, Any]:
    """The patch of a claim's metadata; empty if nothing differs."""
    if metadata is None and objects.annotation(claim, ANN_ADDED) is None:
        return {}
    wanted = _wanted(metadata)
    added = {part: sorted(values) for part, values in wanted.items() if values}
    text = json.dumps(added, sort_keys=True) if added else None
    before, change = _added(claim), dict[str, Any]()
    for part in _PARTS:
        live = claim["metadata"].get(part) or {}
        values: dict[str, str | None] = dict.fromkeys(
            key for key in before.get(part, ()) if key in live and key not in wanted[part]
        )
        values |= {key: value for key, value in wanted[part].items() if live.get(key) != value}
        if values:
            change[part] = values
    if objects.annotation(claim, ANN_ADDED) != text:
        change["annotations"] = {**change.get("annotations", {}), ANN_ADDED: text}
    return change


def _wanted(metadata: TemplateMetadata | None) -> dict[str, Mapping[str, str]]:
    if metadata is None:
        return {part: {} for part in _PARTS}
    notes = {
        key: value
        for key, value in metadata.annotations.items()
        if rules.annotation(key) is None and rules.kubernetes_own(key) is None
    }
    return {
        "annotations": notes,
        "labels": {key: value for key, value in metadata.labels.items() if rules.label(key) is None},
    }


def _added(claim: SnapshotObject) -> Mapping[str, list[str]]:
    """The keys that were set before, without those that are Spindle's, whatever the annotation says."""
    try:
        found = json.loads(objects.annotation(claim, ANN_ADDED) or "{}")
    except ValueError:
        return {}
    own = {"annotations": rules.annotation, "labels": rules.label}
    return {
        part: [key for key in keys if isinstance(key, str) and own[part](key) is None]
        for part, keys in (found.items() if isinstance(found, dict) else ())
        if part in own and isinstance(keys, list)
    }
