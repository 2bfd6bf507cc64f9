from typing import Any

import pytest

from spindle_operator import kinds


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        pytest.param(kinds.POD, ("ns", "p", "eviction"), "/api/v1/namespaces/ns/pods/p/eviction", id="core"),
        pytest.param(
            kinds.KAFKA_CLUSTER,
            ("ns", "demo", "status"),
            "/apis/spindle.dev/v1alpha1/namespaces/ns/kafkaclusters/demo/status",
            id="custom",
        ),
        pytest.param(
            kinds.KAFKA_CLUSTER, (None,), "/apis/spindle.dev/v1alpha1/kafkaclusters", id="all namespaces"
        ),
        pytest.param(kinds.NODE, ("ns", "n"), "/api/v1/nodes/n", id="cluster-scoped ignores a namespace"),
    ],
)
def test_path(kind: Any, arguments: Any, path: Any) -> None:
    assert kind.path(*arguments) == path


def test_every_kind_is_found_by_its_name() -> None:
    assert all(kinds.kind_of({"kind": name}) is kind for name, kind in kinds.KINDS.items())
    with pytest.raises(KeyError):
        kinds.kind_of({"kind": "Deployment"})
