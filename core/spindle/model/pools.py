"""The pools of the last spec, in a ConfigMap: a broker whose pool was removed runs until it is empty, and may have to restart.

The ConfigMap also has the whole spec that was applied last, for the time in which a newer one is refused.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from spindle.api import names
from spindle.api.cluster import BrokerPool, KafkaClusterSpec
from spindle.model.memo import by_content
from spindle.model.metadata import labels
from spindle.model.snapshot import SnapshotObject

_ACCEPTED: Final = "_accepted"  # not a valid name of a pool, which has lower-case letters, digits and dashes
_PARSED: Final = 256  # cached specs and pools: they change only when a user changes them


@by_content(_PARSED)
def parse_spec(raw: Mapping[str, Any]) -> KafkaClusterSpec:
    """The spec of a KafkaCluster.

    Raises:
        pydantic.ValidationError: this version cannot parse it.
    """
    return KafkaClusterSpec.model_validate(raw)


def recorded_spec(record: SnapshotObject | None, uid: str) -> KafkaClusterSpec | None:
    """The last applied spec of a KafkaCluster (by UID); None if none is on record that this version can parse."""
    try:
        on_record, spec = _accepted(((record or {}).get("data") or {})[_ACCEPTED])
    except (KeyError, ValueError, TypeError, ValidationError):
        return None
    return spec if on_record == uid else None


@lru_cache(maxsize=_PARSED)
def _accepted(text: str) -> tuple[str, KafkaClusterSpec]:
    """UID and spec of the KafkaCluster on record."""
    found = json.loads(text)
    return found["uid"], KafkaClusterSpec.model_validate(found["spec"])


def recorded_pools(record: SnapshotObject | None) -> dict[str, BrokerPool]:
    """Pools by name from a ConfigMap; those that this version cannot parse are left out."""
    found = {}
    for name, text in ((record or {}).get("data") or {}).items():
        if name == _ACCEPTED:
            continue
        try:
            found[str(name)] = _pool(text)
        except (ValueError, TypeError, ValidationError):
            continue
    return found


@lru_cache(maxsize=_PARSED)
def _pool(text: str) -> BrokerPool:
    return BrokerPool.model_validate(json.loads(text))


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
            _ACCEPTED: f'{{"spec": {spec.to_text()}, "uid": {json.dumps(cluster["metadata"]["uid"])}}}',
            **{key: pool.to_text() for key, pool in sorted(pools.items())},
        },
    }
