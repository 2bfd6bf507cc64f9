"""Checks the Kafka settings in a KafkaCluster's spec against the Kafka release, and names the field of each."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from spindle.api.cluster import KafkaClusterSpec
from spindle.config import server_properties
from spindle.config.settings_check import problems
from spindle.model.spec_findings import RejectedSettings


def refused_settings(spec: KafkaClusterSpec, version: str) -> tuple[RejectedSettings, ...]:
    """The settings anywhere in a spec that a Kafka release would not accept, sorted by field and key.

    The release is an argument, since a cluster may have to stay with the release that it runs. For an unsupported release, the result is empty.
    """
    pools = tuple((pool.name, pool.jvm.heap, _items(pool.config)) for pool in spec.broker_pools)
    brokers = sum(pool.replicas for pool in spec.broker_pools)
    return _refused(_items(spec.config), pools, spec.controllers.jvm.heap, brokers, version)


def _items(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.items()))


@lru_cache(maxsize=128)
def _refused(
    shared: tuple[tuple[str, str], ...],
    pools: tuple[tuple[str, str | None, tuple[tuple[str, str], ...]], ...],
    heap: str | None,
    brokers: int,
    version: str,
) -> tuple[RejectedSettings, ...]:
    cluster = dict(shared)
    found = dict.fromkeys(_of_controllers(cluster, heap, brokers, version))
    for name, its_heap, own in pools:
        found |= dict.fromkeys(_of_pool(cluster, name, its_heap, dict(own), brokers, version))
    return tuple(sorted(found))


def _of_controllers(
    cluster: dict[str, str], heap: str | None, brokers: int, version: str
) -> Iterator[RejectedSettings]:
    """The cluster's settings as the controllers have them; they apply to all brokers, too."""
    around = server_properties.controller_settings(_node(cluster, heap, {}, brokers))
    for problem in problems(cluster, version, around):
        yield RejectedSettings("spec.config", problem.key, problem.message, problem.way_out)


def _of_pool(
    cluster: dict[str, str], name: str, heap: str | None, own: dict[str, str], brokers: int, version: str
) -> Iterator[RejectedSettings]:
    """The cluster's settings, overridden by the pool's, with the defaults that Spindle computes from the pool's heap."""
    for field, asked, pool in (("spec.config", cluster, {}), (f"spec.brokerPools[{name}].config", own, own)):
        around = server_properties.broker_settings(_node(cluster, heap, pool, brokers), rack=None)
        for problem in problems(asked, version, around):
            yield RejectedSettings(field, problem.key, problem.message, problem.way_out)


def _node(
    cluster: dict[str, str], heap: str | None, own: dict[str, str], brokers: int
) -> server_properties.NodeConfig:
    """An example node: the settings that differ between nodes are Spindle's."""
    return server_properties.node_config(
        "cluster", "namespace", 0, controllers=(), brokers=brokers, config=cluster, pool_config=own, heap=heap
    )
