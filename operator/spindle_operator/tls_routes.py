"""The TLSRoutes of a KafkaCluster, read where it has a listener that needs them, or has had one."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.listeners import TLS_ROUTE as ROUTED
from spindle.model import objects
from spindle_operator.kinds import TLS_ROUTE
from spindle_operator.kube import ByteBudget, Kube
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

_MOST: Final = 8 << 20  # bytes: 8 listeners of a thousand brokers, about 1 kB each


async def look(
    kube: Kube,
    cluster: Json,
    specs: Sequence[KafkaClusterSpec],
    services: Sequence[Mapping[str, object]],
    problems: dict[str, str],
) -> list[Json] | None:
    """The TLSRoutes of a cluster; None if the API server has none of the supported version, empty if the cluster needs none.

    Args:
        kube: the API server.
        cluster: the KafkaCluster.
        specs: the requested spec and the one on record.
        services: of the cluster; one that has a TLSRoute has a label.
        problems: receives why they could not be read.
    """
    wanted = any(each.type == ROUTED for spec in specs for each in spec.listeners)
    if not wanted and not any(names.LABEL_ROUTED in objects.labels(service) for service in services):
        return []
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    try:
        return await kube.items(
            TLS_ROUTE, namespace, selector=f"{names.LABEL_CLUSTER}={name}", within=ByteBudget(_MOST)
        )
    except ApiError as error:
        if error.gone:
            return None
        problems[TLS_ROUTE.plural] = str(error)
        log.warning("%s cannot be read for %s/%s: %s", TLS_ROUTE.plural, namespace, name, error)
        return []
