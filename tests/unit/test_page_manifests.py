"""Manifests on pages, and parts of them, are what Spindle's models take and what Spindle would apply.

``tests/kube/test_page_manifests.py`` gives them to a real API server, with the definitions in ``crds``.
"""

from typing import Any, Final

import pytest
from pydantic import BaseModel

from spindle.api.cluster import KafkaCluster
from spindle.api.rebalance import KafkaRebalance
from spindle.api.topic import KafkaTopic
from spindle.api.user import KafkaUser
from spindle.config.listeners_check import refused_listeners
from spindle.config.metrics_check import refused_metrics
from spindle.config.racks_check import refused_racks
from spindle.config.spec_allowed import owned_settings
from spindle.config.spec_settings import refused_settings
from tests.pages import Manifest, manifests, other_yaml, whole_cluster

MODELS: Final[dict[str, type[BaseModel]]] = {
    "KafkaCluster": KafkaCluster,
    "KafkaRebalance": KafkaRebalance,
    "KafkaTopic": KafkaTopic,
    "KafkaUser": KafkaUser,
}
ALL: Final = manifests()
OURS: Final = [
    (each.place, each.content if each.part == "apiVersion" else whole_cluster(each))
    for each in ALL
    if each.part in {"spec", "brokerPools"} or each.content.get("kind") in MODELS
]


def unknown(given: Any, taken: Any, place: str) -> list[str]:
    """Fields that a model has dropped."""
    if isinstance(given, dict) and isinstance(taken, dict):
        return [
            each
            for key, value in given.items()
            for each in (unknown(value, taken[key], f"{place}.{key}") if key in taken else [f"{place}.{key}"])
        ]
    if isinstance(given, list) and isinstance(taken, list):
        return [
            each for one, two in zip(given, taken, strict=True) for each in unknown(one, two, f"{place}[]")
        ]
    return []


@pytest.mark.parametrize(("place", "content"), OURS, ids=[place for place, _ in OURS])
def test_a_manifest_of_a_page_is_valid(place: str, content: dict[str, Any]) -> None:
    made = MODELS[content["kind"]].model_validate(content)
    assert unknown(content["spec"], made.model_dump(by_alias=True, mode="json")["spec"], place) == []
    if isinstance(made, KafkaCluster):
        refused = (
            *owned_settings(made.spec),
            *refused_settings(made.spec, made.spec.version),
            *refused_metrics(made.spec),
            *refused_racks(made.spec),
            *refused_listeners(made.spec),
        )
        assert refused == ()


def test_every_block_of_yaml_begins_with_a_key_that_says_what_it_is() -> None:
    """``spec:`` for a part of a KafkaCluster, and so on: only then is it tried."""
    assert other_yaml() == []


def test_all_kinds_of_parts_are_found() -> None:
    assert {each.part for each in ALL} == {"apiVersion", "spec", "brokerPools", "rules"}
    assert len(OURS) > 15


def test_a_part_with_a_wrong_field_is_noticed() -> None:
    part = Manifest("page:1", {"spec": {"racks": {"topologyKey": "zone", "topologyKeys": "zone"}}}, "spec")
    content = whole_cluster(part)
    made = KafkaCluster.model_validate(content)
    assert unknown(content["spec"], made.model_dump(by_alias=True, mode="json")["spec"], "page:1") == [
        "page:1.racks.topologyKeys"
    ]
