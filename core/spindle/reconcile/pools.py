"""The pools as the spec had them last, in a ConfigMap: a broker whose pool was removed has to run until it is empty, and may have to start again.

Beside them the whole spec that was carried out last, for the time in which one stands that is refused.
"""

import json
from typing import Any, Final

from pydantic import ValidationError

from spindle.api.cluster import BrokerPool, KafkaClusterSpec
from spindle.cluster import names
from spindle.manifests.common import labels
from spindle.reconcile.snapshot import SnapshotObject

_ACCEPTED: Final = "_accepted"  # no pool's name: those are of small letters, digits and dashes


def recorded_spec(record: SnapshotObject | None, uid: str) -> KafkaClusterSpec | None:
    """The spec that was carried out last of a KafkaCluster (its UID); None if none is on record that this version understands."""
    try:
        found = json.loads(((record or {}).get("data") or {})[_ACCEPTED])
        return KafkaClusterSpec.model_validate(found["spec"]) if found["uid"] == uid else None
    except (KeyError, ValueError, TypeError, ValidationError):
        return None


def recorded_pools(record: SnapshotObject | None) -> dict[str, BrokerPool]:
    """Pools by name as a ConfigMap has them; those that this version does not understand are left out."""
    found = {}
    for name, text in ((record or {}).get("data") or {}).items():
        if name == _ACCEPTED:
            continue
        try:
            found[str(name)] = BrokerPool.model_validate(json.loads(text))
        except (ValueError, TypeError, ValidationError):
            continue
    return found


def pools_map(
    cluster: SnapshotObject,
    pools: dict[str, BrokerPool],
    spec: KafkaClusterSpec,
    cluster_id: str | None = None,
) -> dict[str, Any]:
    """The ConfigMap ``<cluster>-pools``: one entry for each pool, as JSON. It has no owner: a cluster that is applied again needs it.

    ``cluster_id`` (Kafka's) is what it is known by then; ``spec`` is the one that is carried out.
    """
    name = str(cluster["metadata"]["name"])
    accepted = {"uid": cluster["metadata"]["uid"], "spec": spec.to_dict()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.pools_map(name),
            "namespace": cluster["metadata"]["namespace"],
            "labels": labels(name),
            **({"annotations": {names.ANN_CLUSTER_ID: cluster_id}} if cluster_id else {}),
        },
        "data": {
            _ACCEPTED: json.dumps(accepted, sort_keys=True),
            **{key: json.dumps(pool.to_dict(), sort_keys=True) for key, pool in sorted(pools.items())},
        },
    }
