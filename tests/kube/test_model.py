"""What becomes of the fields of an object that Spindle creates and applies: the model of the unit tests says the same as a real API server."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.api import names
from spindle.model.actions import Action, Apply, Create
from spindle_operator.kinds import kind_of
from spindle_operator.kube import Kube
from tests.kube.samples import broker as sample_broker
from tests.model.world import World

pytestmark = pytest.mark.kube

Texts = dict[str, str]
LABELS: Texts = {names.LABEL_CLUSTER: "demo"}
OURS, OTHER = "spindle.dev/noted", "prometheus.io/scrape"


def config_map(labels: Texts, annotations: Texts, **data: str) -> dict[str, Any]:
    meta = {"name": "m", "labels": LABELS | labels, "annotations": dict(annotations)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def broker(labels: Texts, annotations: Texts, **spec: Any) -> dict[str, Any]:
    made = sample_broker()
    made["metadata"] |= {"labels": LABELS | labels, "annotations": dict(annotations)}
    made["spec"] |= spec
    return made


def seen_in(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that the model and the API server must agree on."""
    meta = obj["metadata"]
    return {
        "labels": meta.get("labels") or {},
        "annotations": meta.get("annotations") or {},
        "data": obj.get("data") or {},
        "spec": {
            key: value for key, value in (obj.get("spec") or {}).items() if key != "disks"
        },  # has defaults
    }


FULL: tuple[Texts, Texts] = ({"was": "1", "stays": "1"}, {OURS: "1", OTHER: "1"})
LESS: tuple[Texts, Texts] = ({"stays": "1"}, {})
CASES = [
    pytest.param(config_map, {"a": "1", "b": "1"}, {"a": "1"}, id="ConfigMap"),
    pytest.param(broker, {"joining": True, "node": "node1"}, {"node": "node1"}, id="KafkaBroker"),
    pytest.param(broker, {"scrub": {"bytesPerSecond": 1_000_000, "everyDays": 7}}, {}, id="a whole mapping"),
]


@pytest.mark.parametrize("by", [Create, Apply])
@pytest.mark.parametrize(("make", "much", "little"), CASES)
async def test_what_is_left_out_goes_and_what_is_somebodys_stays(
    kube: Kube,
    namespace: str,
    act: Any,
    api_server: ApiServer,
    by: Any,
    make: Any,
    much: dict[str, Any],
    little: dict[str, Any],
) -> None:
    kind, model = kind_of(make(*FULL)), World()
    name = make(*FULL)["metadata"]["name"]

    async def both(action: Action) -> None:
        assert await act(action) == ["done"]
        model.act(action)

    async def apply(labels: Texts, annotations: Texts, **rest: Any) -> None:
        live, told = await kube.get(kind, namespace, name), model.get(kind.kind, name)
        obj = make(labels, annotations, **rest)
        assert await act(Apply(object=obj, seen=live)) == ["done"]
        model.act(Apply(object=obj, seen=told))
        after = await kube.get(kind, namespace, name)
        assert seen_in(model.get(kind.kind, name)) == seen_in(after)

    await both(by(object=make(*FULL, **much)))
    theirs = {"metadata": {"labels": {"theirs": "1"}, "annotations": {"theirs": "1"}}}
    plural = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    api_server.kubectl("-n", namespace, "patch", plural, name, "--type=merge", "-p", json.dumps(theirs))
    stored = model.get(kind.kind, name)
    for part, value in theirs["metadata"].items():
        stored["metadata"][part] |= value
    model.put(stored)
    await apply(*LESS, **little)
    await apply(*FULL, **much)
    await apply(*LESS, **little)
    await apply({}, {OTHER: "2"}, **much)
    await apply(*LESS, **little)
