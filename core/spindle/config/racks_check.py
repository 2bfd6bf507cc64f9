"""Checks ``spec.racks`` against the configuration. The CRD rejects the same, but not in an older spec, nor if the CRD was not updated."""

from collections.abc import Iterator, Mapping

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.policy import RACK_AWARE, REPLICA_SELECTOR
from spindle.model.spec_findings import RejectedSettings


def refused_racks(spec: KafkaClusterSpec) -> tuple[RejectedSettings, ...]:
    """Configurations that name another class than the one that ``racks.followerFetching`` needs, by field."""
    if not spec.racks.follower_fetching:
        return ()
    found = [*_otherwise("spec.config", spec.config)]
    for pool in spec.broker_pools:
        found += _otherwise(f"spec.brokerPools[{pool.name}].config", pool.config)
    return tuple(found)


def _otherwise(field: str, config: Mapping[str, str]) -> Iterator[RejectedSettings]:
    if config.get(REPLICA_SELECTOR, RACK_AWARE) != RACK_AWARE:
        yield RejectedSettings(
            field,
            REPLICA_SELECTOR,
            f"{REPLICA_SELECTOR} names another class than the one that spec.racks.followerFetching needs ({RACK_AWARE})",
            f"remove {REPLICA_SELECTOR} from {field}, or remove spec.racks.followerFetching",
        )
