"""Asks the API server whether it would accept what a take-over writes, in dry runs: nothing is changed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from spindle.manifests.backup import reserve
from spindle.takeover import manifests, strimzi
from spindle.takeover.converted import Converted
from spindle.takeover.plan import NodePlan, TakeoverPlan
from spindle_cli import objects
from spindle_cli.kube import ConflictError, InvalidError, KubeError
from spindle_cli.objects import Objects
from spindle_cli.strimzi_kinds import KAFKA, POD_SET

# What is created takes the place of what is deleted before, which still counts during a dry run.
_FULL: Final = "exceeded quota"


def with_refusals(found: Objects, plan: TakeoverPlan, image: Callable[[], str]) -> TakeoverPlan:
    """The plan, with what the API server would refuse among its problems.

    Only one node of each pool is asked about, because the objects of the others differ in their names alone. A plan that has problems is left as it is.

    Args:
        image: finds Spindle's image.
    """
    if plan.problems:
        return plan
    try:
        requests = _requests(found, plan, image())
    except KubeError as error:
        return replace(plan, problems=(str(error),))
    return replace(plan, problems=tuple(dict.fromkeys(filter(None, map(_refusal, requests)))))


def accepted(found: Objects, made: Iterable[Converted]) -> list[Converted]:
    """Converted objects, without those that Spindle's definitions refuse; a note says why."""
    checked = []
    unasked: str | None = None
    for each in made:
        if each.manifest is None or unasked is not None:
            checked.append(each)
            continue
        try:
            found.apply(each.manifest, dry_run=True)
        except InvalidError as error:
            checked.append(Converted(each.was, None, (f"the API server refuses it: {error}",)))
            continue
        except KubeError as error:
            unasked = f"from here on, nothing was checked against Spindle's definitions: {error}"
            checked.append(replace(each, notes=(*each.notes, unasked)))
            continue
        checked.append(each)
    return checked


def _refusal(request: Callable[[], None]) -> str | None:
    try:
        request()
    except ConflictError:
        return None  # it is there from an earlier run, and is replaced
    except KubeError as error:
        return (
            None if _FULL in str(error) else f"the API server would refuse what the take-over does: {error}"
        )
    return None


def _requests(found: Objects, plan: TakeoverPlan, image: str) -> Iterator[Callable[[], None]]:
    pause = {"metadata": {"annotations": {strimzi.PAUSE: "true"}}}
    yield partial(found.apply, plan.manifest, dry_run=True)
    yield partial(found.patch, KAFKA, plan.name, pause, dry_run=True)
    for node in {node.pool: node for node in reversed(plan.nodes)}.values():
        yield from _of_node(found, plan, node, image)


def _of_node(found: Objects, plan: TakeoverPlan, node: NodePlan, image: str) -> Iterator[Callable[[], None]]:
    yield partial(found.delete, POD_SET, strimzi.pod_set(node.pod), dry_run=True)
    for disk in node.disks:
        change = reserve(plan.namespace, disk.becomes)["spec"] | {"persistentVolumeReclaimPolicy": "Retain"}
        yield partial(found.patch, objects.VOLUME, disk.volume, {"spec": change}, dry_run=True)
        yield partial(found.delete, objects.CLAIM, disk.claim, dry_run=True)
        yield partial(found.apply, manifests.new_claim(plan, node, disk), dry_run=True)
    yield partial(found.create, objects.POD, manifests.pod(plan, node, image), dry_run=True)
