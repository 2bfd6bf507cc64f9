"""The ConfigMap of one broker or controller, from which preflight creates the final configuration, and those that running nodes read again."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.manifests.metadata import labels, owner, role_of
from spindle.model.memo import by_content
from spindle.model.metadata import owned_metadata
from spindle.model.node_inputs import ClusterInputs, NodeInputs, VoterInputs
from spindle.model.versions import release_version

LOGGERS_KEY: Final = "loggers"  # of `loggers_map`; the name of the file that logging.sh reads
TOPICS_KEY: Final = "topics"  # of `topics_map`; the name of the file that metrics.sh reads


def node_config_map(
    cluster: ClusterInputs, node: NodeInputs, voters: tuple[VoterInputs, ...] = ()
) -> dict[str, Any]:
    """ConfigMap ``<pod>-config`` with ``server.properties`` and ``node.json``.

    ``voters`` is the initial quorum; required for controllers, ignored for brokers. Only a controller
    whose disk is blank when the cluster is created uses it, so it is not part of the pod's hash.
    """
    role = role_of(node)
    document: dict[str, Any] = {
        "cluster": cluster.name,
        "namespace": cluster.namespace,
        "clusterId": cluster.cluster_id,
        "nodeId": node.node_id,
        "role": role,
        "releaseVersion": release_version(cluster.version),
        "sharedFilesystem": cluster.shared_filesystem,
    }
    if role == names.ROLE_CONTROLLER:
        document["voters"] = [
            {
                "id": voter.node_id,
                "host": names.node_host(cluster.name, cluster.namespace, voter.node_id),
                "port": names.PORT_CONTROLLER,
                "directoryId": voter.directory_id,
            }
            for voter in voters
        ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.config_map(cluster.name, node.node_id),
            "namespace": cluster.namespace,
            "labels": labels(cluster, node),
            "ownerReferences": [owner(cluster)],
        },
        "data": {
            "server.properties": node.server_properties,
            "node.json": _text(document),
        },
    }


def topics_map(cluster: Mapping[str, Any], topics: Iterable[str]) -> dict[str, Any]:
    """ConfigMap ``<cluster>-topic-metrics``: the topics whose metrics the brokers export, one a line. Running brokers read it again when it changes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(cluster, names.topics_map(cluster["metadata"]["name"])),
        "data": {TOPICS_KEY: "".join(f"{topic}\n" for topic in sorted(set(topics)))},
    }


def loggers_map(cluster: Mapping[str, Any], levels: Mapping[str, str]) -> dict[str, Any]:
    """ConfigMap ``<cluster>-loggers``: a logger and its level on each line. Running brokers and controllers read it again when it changes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owned_metadata(cluster, names.loggers_map(cluster["metadata"]["name"])),
        "data": {LOGGERS_KEY: "".join(f"{logger} {level}\n" for logger, level in sorted(levels.items()))},
    }


@by_content(4096)
def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
