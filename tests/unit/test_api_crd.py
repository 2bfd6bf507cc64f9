from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from kubernetes.client import V1JSONSchemaProps
from pydantic import Field, ValidationError

from spindle.api.common import RULES, ApiModel, hint, rule, rules
from spindle.api.crd import KINDS, CustomResource, crd, schema_of, structural
from spindle.api.owned import OWNED, owned
from tools.generate import stale

Schema = dict[str, Any]
MOST_OF_A_MESSAGE = 2048  # apiextensions validation of `message`


def schema(kind: CustomResource) -> Schema:
    found: Schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema below this one, by path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


def of_fields(kind: CustomResource) -> list[tuple[str, Schema]]:
    root = schema(kind)["properties"]
    return [*nodes(root["spec"], "spec"), *nodes(root["status"], "status")]


each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_what_is_committed_is_what_the_models_say() -> None:
    assert not stale(), "run `make generate` and commit what it writes"


@each_kind
def test_kubernetes_own_model_takes_the_schema(kind: CustomResource) -> None:
    """The client's constructor refuses keywords that the API does not know."""
    V1JSONSchemaProps(**schema(kind))
    with pytest.raises(ValidationError, match="uniqueThings"):
        V1JSONSchemaProps(**schema(kind) | {"uniqueThings": True})


@each_kind
def test_every_field_is_described(kind: CustomResource) -> None:
    undescribed = [
        path
        for path, node in of_fields(kind)
        if not node.get("description") and not path.endswith(("[]", "{}"))
    ]
    assert not undescribed


@each_kind
def test_everything_is_bounded(kind: CustomResource) -> None:
    """Without bounds the API server finds the rules too dear, and an object can outgrow etcd."""
    unbounded = [
        path
        for path, node in of_fields(kind)
        if (node.get("type") == "array" and "maxItems" not in node)
        or ("additionalProperties" in node and "maxProperties" not in node)
        or (node.get("type") == "string" and not {"maxLength", "enum", "format"} & node.keys())
    ]
    assert not unbounded


@each_kind
def test_lists_of_objects_say_who_owns_what(kind: CustomResource) -> None:
    for path, node in of_fields(kind):
        if node.get("type") == "array":
            sort = node.get("x-kubernetes-list-type")
            assert sort in ("map", "atomic"), path
            if sort == "map":
                keys = node["x-kubernetes-list-map-keys"]
                assert set(keys) <= set(node["items"]["required"]), path


@each_kind
def test_rules_have_sentences(kind: CustomResource) -> None:
    for path, node in nodes(schema(kind)):
        for one in node.get(RULES, ()):
            assert len(one["message"]) < MOST_OF_A_MESSAGE, path
            assert len(one["message"].split()) > 4, path
            assert "\n" not in one["message"], path


@each_kind
def test_no_marks_of_ours_are_left(kind: CustomResource) -> None:
    for path, node in nodes(schema(kind)):
        assert not [
            key for key in node if key.startswith("x-spindle") or key in ("$ref", "anyOf", "title")
        ], path


def models(base: type[ApiModel] = ApiModel) -> Iterator[type[ApiModel]]:
    for model in base.__subclasses__():
        yield model
        yield from models(model)


def lost_rules(model: type[ApiModel]) -> list[str]:
    """Rules of a field's annotated type that its own marks replaced; pydantic merges the two key by key."""
    lost = []
    for name, annotation in model.__annotations__.items():
        kept = (getattr(model.model_fields.get(name), "json_schema_extra", None) or {}).get(RULES, ())
        for mark in getattr(annotation, "__metadata__", ()):
            extra = getattr(mark, "json_schema_extra", None) or {}
            lost += [
                f"{model.__name__}.{name}: {one['rule']}" for one in extra.get(RULES, ()) if one not in kept
            ]
    return lost


def test_no_rule_is_lost_between_type_and_field() -> None:
    assert not [
        line for model in models() if model.__module__.startswith("spindle") for line in lost_rules(model)
    ]


Odd = Annotated[int, Field(json_schema_extra=rules(rule("self % 2 == 1", "write an odd number")))]


class Forgetful(ApiModel):
    """A model whose field has rules on both sides."""

    value: Odd = Field(description="Value.", json_schema_extra=rules(rule("self == oldSelf", "leave it")))


def test_a_lost_rule_is_seen() -> None:
    assert lost_rules(Forgetful) == ["Forgetful.value: self % 2 == 1"]


def test_defaults_stand_at_every_level() -> None:
    spec = schema(KINDS[0])["properties"]["spec"]
    whole = spec["properties"]["disks"]["default"]
    assert whole["thresholds"]["warn"] == 70
    assert spec["properties"]["disks"]["properties"]["thresholds"]["default"] == whole["thresholds"]
    assert "default" not in spec["properties"]["controllers"]
    status = schema(KINDS[0])["properties"]["status"]
    assert "default" not in status["properties"]["brokers"]


def test_what_users_apply_has_a_status_that_no_generation_matches() -> None:
    """kstatus takes an object without a status for one that is in effect."""
    for kind in KINDS:
        status = schema(kind)["properties"]["status"]
        wanted = None if kind.name == "KafkaBroker" else {"observedGeneration": -1}
        assert status.get("default") == wanted, kind.name


class Leaf(ApiModel):
    """A leaf."""

    weight: int = Field(3, ge=1, le=9, description="Weight.", json_schema_extra=hint("write 1 to 9"))
    sort: Literal["oak"] = Field("oak", description="Sort.")
    name: Annotated[str, Field(json_schema_extra=rules(rule("self != ''", "name it")))] | None = Field(
        None, description="Name,\n    in two lines."
    )


class Branch(ApiModel):
    """A branch."""

    leaf: Leaf = Field(
        default_factory=Leaf, description="The leaf.", json_schema_extra=rules(rule("true", "so"))
    )


class Tree(ApiModel):
    """A tree that holds trees."""

    api_version: str = ""
    trees: list["Tree"] = Field(default_factory=list)


class Either(ApiModel):
    """One or the other."""

    value: int | str = 0


class Pair(ApiModel):
    """Two of a kind."""

    value: tuple[int, str] = (0, "")


def test_an_object_that_may_be_absent_is_not_made_of_its_defaults() -> None:
    class Inner(ApiModel):
        level: int = Field(3, description="…")

    class Outer(ApiModel):
        always: Inner = Field(default_factory=Inner, description="…")
        perhaps: Inner | None = Field(None, description="…")

    made = structural(schema_of(Outer))
    assert made["properties"]["always"]["default"] == {"level": 3}
    assert "default" not in made["properties"]["perhaps"]
    assert made["properties"]["perhaps"]["properties"]["level"]["default"] == 3


def test_repairs() -> None:
    leaf = structural(schema_of(Branch))["properties"]["leaf"]
    assert leaf["description"] == "The leaf."
    assert leaf["default"] == {"weight": 3, "sort": "oak"}
    assert leaf["properties"]["weight"] == {
        "description": "Weight.",
        "type": "integer",
        "default": 3,
        RULES: [{"rule": "self >= 1 && self <= 9", "message": "write 1 to 9"}],
    }
    assert leaf["properties"]["sort"]["enum"] == ["oak"]
    assert leaf["properties"]["name"] == {
        "description": "Name, in two lines.",
        "type": "string",
        RULES: [{"rule": "self != ''", "message": "name it"}],
    }


@pytest.mark.parametrize(
    ("model", "says"),
    [
        pytest.param(Tree, "contains itself", id="recursive"),
        pytest.param(Either, "a union", id="union"),
        pytest.param(Pair, "prefixItems", id="tuple"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_an_error(model: type[ApiModel], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        schema_of(model)


def test_owned_keys_and_the_way_out() -> None:
    assert owned("num.io.threads") is None
    assert owned("log.retention.hours") is None
    assert owned("listenersx") is None
    assert "brokerPools[].disks" in (owned("log.dirs") or "")
    assert "ACLs" in (owned("ssl.keystore.location") or "")


def test_ways_out_fit_into_cel_text() -> None:
    """They are put between single quotes, inside rules that may not hold line breaks."""
    for group in OWNED:
        for text in (group.subject, group.way_out, *group.keys, *group.prefixes):
            assert not set(text) & {"'", "\\", "\n"}, text
        assert all(prefix.endswith(".") for prefix in group.prefixes)
