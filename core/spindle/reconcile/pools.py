"""The pools as the spec had them last, in a ConfigMap: a broker whose pool was removed has to run until it is empty, and may have to start again."""

import json
from typing import Any

from pydantic import ValidationError

from spindle.api.cluster import BrokerPool
from spindle.cluster import names
from spindle.manifests.common import labels
from spindle.reconcile.snapshot import Object


def recorded_pools(record: Object | None) -> dict[str, BrokerPool]:
    """Pools by name as a ConfigMap has them; those that this version does not understand are left out."""
    found = {}
    for name, text in ((record or {}).get("data") or {}).items():
        try:
            found[str(name)] = BrokerPool.model_validate(json.loads(text))
        except (ValueError, TypeError, ValidationError):
            continue
    return found


def pools_map(cluster: Object, pools: dict[str, BrokerPool]) -> dict[str, Any]:
    """The ConfigMap ``<cluster>-pools``: one entry for each pool, as JSON. It has no owner: a cluster that is applied again needs it."""
    name = str(cluster["metadata"]["name"])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.pools_map(name),
            "namespace": cluster["metadata"]["namespace"],
            "labels": labels(name),
        },
        "data": {key: json.dumps(pool.to_dict(), sort_keys=True) for key, pool in sorted(pools.items())},
    }
