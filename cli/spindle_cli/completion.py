"""Names of objects, for the completion of the shell. Whatever fails completes nothing: a shell that waits for the next word shows no error."""

from collections.abc import Callable, Iterable

import typer

from spindle_cli.copied import Typed
from spindle_cli.kube import Json, Kube, KubeError

Completer = Callable[[typer.Context, str], list[str]]


def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """KafkaClusters of the namespace."""
    return _begin(incomplete, ctx, lambda kube: _names(kube.raw_list("KafkaCluster")))


def brokers(ctx: typer.Context, incomplete: str) -> list[str]:
    """KafkaBrokers of the namespace."""
    return _begin(incomplete, ctx, lambda kube: _names(kube.raw_list("KafkaBroker")))


def users(ctx: typer.Context, incomplete: str) -> list[str]:
    """KafkaUsers of the namespace."""
    return _begin(incomplete, ctx, lambda kube: _names(kube.raw_list("KafkaUser")))


def proposals(ctx: typer.Context, incomplete: str) -> list[str]:
    """KafkaRebalances of the namespace."""
    return _begin(incomplete, ctx, lambda kube: _names(kube.raw_list("KafkaRebalance")))


def disks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Disks of the broker that the command line names before."""

    def find(kube: Kube) -> list[str]:
        broker = kube.raw("KafkaBroker", str(ctx.params.get("broker") or ""))
        return [str(each["name"]) for each in broker["spec"].get("disks") or ()]

    return _begin(incomplete, ctx, find)


def _names(found: Iterable[Json]) -> list[str]:
    return [str(each["metadata"]["name"]) for each in found]


def _begin(incomplete: str, ctx: typer.Context, find: Callable[[Kube], list[str]]) -> list[str]:
    """The names that begin so, in the namespace and the context of the command line."""
    Typed.context = ctx.find_root().params.get("context")
    try:
        found = find(Kube.connect(ctx.params.get("namespace")))
    except (KubeError, ValueError, KeyError, TypeError, OSError):
        return []
    return sorted(each for each in found if each.startswith(incomplete) and each.isprintable())
