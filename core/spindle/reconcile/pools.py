"""The pools of the last spec, in a ConfigMap: a broker whose pool was removed runs until it is empty, and may have to restart.

The ConfigMap also has the whole spec that was applied last, for the time in which a newer one is refused.
"""

import json
from typing import Any, Final

from pydantic import ValidationError

from spindle.api.cluster import BrokerPool, KafkaClusterSpec
from spindle.cluster import names
from spindle.manifests.common import labels
from spindle.reconcile.snapshot import SnapshotObject

_ACCEPTED: Final = "_accepted"  # not a valid name of a pool, which has lower-case letters, digits and dashes


def recorded_spec(record: SnapshotObject | None, uid: str) -> KafkaClusterSpec | None:
    """The last applied spec of a KafkaCluster (by UID); None if none is on record that this version can parse."""
    try:
        found = json.loads(((record or {}).get("data") or {})[_ACCEPTED])
        return KafkaClusterSpec.model_validate(found["spec"]) if found["uid"] == uid else None
    except (KeyError, ValueError, TypeError, ValidationError):
        return None


def recorded_pools(record: SnapshotObject | None) -> dict[str, BrokerPool]:
    """Pools by name from a ConfigMap; those that this version cannot parse are left out."""
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

    ``cluster_id`` (Kafka's) identifies it then; ``spec`` is the one in effect.
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
