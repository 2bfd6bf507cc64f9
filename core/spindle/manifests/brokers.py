"""The KafkaBroker objects: each broker's identity record."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.broker import USER_FIELDS, KafkaBrokerSpec
from spindle.model.metadata import owned_metadata

_EVERYWHERE: Final = ("cluster", "id", "pool", "disks")  # in every KafkaBroker
# The other fields of a KafkaBroker's spec that the operator owns.
OPERATOR_FIELDS: Final = tuple(
    name
    for each, field in KafkaBrokerSpec.model_fields.items()
    if (name := field.alias or each) not in (*_EVERYWHERE, *USER_FIELDS)
)


def kafka_broker(
    cluster: Mapping[str, Any], broker_id: int, pool: str, disks: Iterable[Mapping[str, Any]], **fields: Any
) -> dict[str, Any]:
    """A KafkaBroker with the fields that the operator owns.

    It has a finalizer, because it records the identity of the disks.

    Args:
        cluster: the KafkaCluster object.
        broker_id: Kafka's id of the broker.
        pool: its pool.
        disks: entries of ``spec.disks``; fields that are None are omitted.
        fields: `OPERATOR_FIELDS` as in the API; those that are None are omitted.

    Raises:
        TypeError: a field is not the operator's.
    """
    if strange := fields.keys() - set(OPERATOR_FIELDS):
        raise TypeError(f"not the operator's: {', '.join(sorted(strange))}")
    name = cluster["metadata"]["name"]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "KafkaBroker",
        "metadata": {
            **owned_metadata(
                cluster,
                names.broker_name(name, broker_id),
                role=names.ROLE_BROKER,
                node_id=broker_id,
                pool=pool,
            ),
            "finalizers": [names.FINALIZER],
        },
        "spec": {
            "cluster": name,
            "id": broker_id,
            "pool": pool,
            **{key: fields[key] for key in OPERATOR_FIELDS if fields.get(key) is not None},
            "disks": [{key: value for key, value in disk.items() if value is not None} for disk in disks],
        },
    }
