"""The replacement of an authority against a real API server: three guarded writes of one Secret."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.cluster import names
from spindle.reconcile.actions import Action, IssueCa, IssueCertificate, TurnCa
from spindle.reconcile.snapshot import SecretView
from spindle.reconcile.times import seconds
from spindle_operator.act import CONFLICT, DONE, FAILED, Actor
from spindle_operator.gate import KafkaGate
from spindle_operator.kinds import SECRET
from spindle_operator.kube import Kube, connect
from spindle_operator.observe import observe
from tests.kube.samples import cluster as sample_cluster

pytestmark = pytest.mark.kube

LABELS = {names.LABEL_CLUSTER: "demo"}


@pytest.fixture
async def kube(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kube]:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    async with connect() as kube:
        yield kube


@pytest.fixture
async def cluster(kube: Kube, namespace: str) -> dict[str, Any]:
    return await kube.create(sample_cluster(), namespace)


@pytest.fixture
def act(kube: Kube, cluster: dict[str, Any]) -> Callable[..., Any]:
    async def act(*actions: Action) -> list[str]:
        gate = KafkaGate("test", 1)
        results = await Actor(kube, cluster, gate, lambda: True).run(actions)
        await gate.shutdown()
        return [result.outcome for result in results]

    return act


async def test_an_authority_is_replaced_in_three_writes_and_only_from_what_was_looked_at(
    kube: Kube, namespace: str, cluster: dict[str, Any], act: Any
) -> None:
    authority = IssueCa(secret="demo-ca", metadata={"name": "demo-ca", "labels": LABELS})  # noqa: S106 - a name
    assert await act(authority) == [DONE]

    async def look() -> SecretView:
        seen = await observe(kube, cluster, "image", KafkaGate("test", 1))
        return next(view for view in seen.snapshot.secrets if view.metadata["name"] == "demo-ca")

    def turn(view: SecretView, step: Any) -> TurnCa:
        meta = view.metadata
        return TurnCa(
            secret="demo-ca",  # noqa: S106 - a name
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            step=step,
            annotations={names.ANN_ROTATED: "1"},
        )

    first = await look()
    assert await act(turn(first, "announce")) == [DONE]
    assert await act(turn(first, "announce")) == [CONFLICT], "it changed since it was looked at"
    second = await look()
    assert first.certificate == second.certificate
    assert second.following is not None
    assert await act(turn(second, "switch")) == [DONE]
    third = await look()
    assert (third.certificate, third.following, third.former) == (second.following, None, second.certificate)
    assert third.certificate is not None
    assert third.former is not None
    both = (third.certificate.fingerprint, third.former.fingerprint)
    leaf = IssueCertificate(
        metadata={"name": "demo-admin", "labels": LABELS}, common_name="admin", trusted=both
    )
    assert await act(leaf) == [DONE]
    noted = (await kube.get(SECRET, namespace, "demo-admin"))["metadata"]["annotations"][names.ANN_WRITTEN]
    assert seconds(noted) == pytest.approx(time.time(), abs=600)
    assert await act(replace(leaf, since="2026-01-01T00:00:00Z")) == [DONE]
    kept = (await kube.get(SECRET, namespace, "demo-admin"))["metadata"]["annotations"][names.ANN_WRITTEN]
    assert kept == "2026-01-01T00:00:00Z", "a renewal says nothing new"
    assert await act(turn(third, "retire")) == [DONE]
    assert await act(leaf) == [FAILED], "the authorities are others than the plan knew"
    assert (await look()).former is None
    stored = await kube.get(SECRET, namespace, "demo-ca")
    assert set(stored["data"]) == {"ca.crt", "ca.key"}
    assert stored["metadata"]["annotations"][names.ANN_ROTATED] == "1"
