"""``spindle racks``: which ``client.rack`` a consumer sets in which zone."""

from typing import Any, Final

import typer
from rich.table import Table

from spindle.api import names
from spindle.api.cluster import KafkaCluster
from spindle_cli.kube import Kube
from spindle_cli.output import Output, OutputOption, structured
from spindle_cli.screen import on_one_line, say
from spindle_cli.terminal import Cluster, Namespace, console, sentences

_OFF: Final = "Consumers fetch from leaders whatever they set: spec.racks.followerFetching is false. Set it to true to let them fetch in their zone."


def racks(
    cluster: Cluster = None,
    namespace: Namespace = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the client.rack that a consumer sets in each zone to fetch from a replica there."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.cluster(kube.one_cluster(cluster))
        if output in (Output.JSON, Output.YAML):
            typer.echo(structured(as_data(found), output))
            return
        shown = on_one_line(found)
        if shown.status is None or not shown.status.racks:
            say(f"No broker of {shown.metadata.name} has a rack yet.")
            return
        console.print(table(shown))
        say(explanation(shown))


def as_data(cluster: KafkaCluster) -> dict[str, Any]:
    """The same for programs."""
    status = cluster.status
    return {
        "topologyKey": cluster.spec.racks.topology_key,
        "followerFetching": cluster.spec.racks.follower_fetching,
        "racks": [
            {"zone": each.rack, "clientRack": each.rack, "brokers": list(each.brokers)}
            for each in (status.racks if status is not None else ())
        ],
    }


def table(cluster: KafkaCluster) -> Table:
    """One row per rack."""
    result = Table(f"Node label {cluster.spec.racks.topology_key}", "client.rack", "Brokers")
    for each in cluster.status.racks if cluster.status is not None else ():
        result.add_row(each.rack, each.rack, ", ".join(map(str, each.brokers)))
    return result


def explanation(cluster: KafkaCluster) -> str:
    """What the values are for, and how a client gets its own."""
    if not cluster.spec.racks.follower_fetching:
        return _OFF
    return (
        "A consumer in another zone, or without client.rack, fetches from leaders. The same values are in the key client.racks of Secret "
        f"{names.admin_secret(cluster.metadata.name)} and of each KafkaUser's Secret."
    )
