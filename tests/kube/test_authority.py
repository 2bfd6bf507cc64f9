"""The replacement of an authority against a real API server: three guarded writes of one Secret."""

import base64
import time
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.model.actions import IssueCa, IssueCertificate, TurnCa
from spindle.model.snapshot import CaSource, SecretView
from spindle.model.times import seconds
from spindle_operator import ca
from spindle_operator.act import CONFLICT, DONE, FAILED
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KAFKA_CLUSTER, SECRET
from spindle_operator.kube import Kube
from spindle_operator.observe import Surroundings, observe

pytestmark = pytest.mark.kube

LABELS = {names.LABEL_CLUSTER: "demo"}


async def test_an_authority_is_replaced_in_three_writes_and_only_from_what_was_looked_at(
    kube: Kube, namespace: str, cluster: dict[str, Any], act: Any
) -> None:
    authority = IssueCa(secret="demo-ca", metadata={"name": "demo-ca", "labels": LABELS})  # noqa: S106 - a name
    assert await act(authority) == [DONE]

    async def look() -> SecretView:
        seen = await observe(kube, cluster, KafkaExecutor("test", 1), Surroundings("image"))
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
    live = (await kube.get(SECRET, namespace, "demo-admin"))["metadata"]
    assert seconds(live["annotations"][names.ANN_WRITTEN]) == pytest.approx(time.time(), abs=600)
    assert await act(replace(leaf, since="2026-01-01T00:00:00Z", seen=live)) == [DONE]
    kept = (await kube.get(SECRET, namespace, "demo-admin"))["metadata"]["annotations"][names.ANN_WRITTEN]
    assert kept == "2026-01-01T00:00:00Z", "a renewal says nothing new"
    assert await act(turn(third, "retire")) == [DONE]
    assert await act(leaf) == [FAILED], "the authorities are others than the plan knew"
    assert (await look()).former is None
    stored = await kube.get(SECRET, namespace, "demo-ca")
    assert set(stored["data"]) == {"ca.crt", "ca.key"}
    assert stored["metadata"]["annotations"][names.ANN_ROTATED] == "1"


async def test_an_authority_comes_from_a_secret_and_another_one_in_it_follows(
    kube: Kube, namespace: str, cluster: dict[str, Any], act: Any
) -> None:
    spec = {"spec": {"security": {"caSecret": "kafka-ca"}}}
    named = await kube.patch(KAFKA_CLUSTER, namespace, "demo", spec)

    async def look() -> CaSource:
        source = (
            await observe(kube, named, KafkaExecutor("test", 1), Surroundings("image"))
        ).snapshot.ca_source
        assert source is not None
        return source

    async def write(pem: ca.Pem) -> None:
        texts = {"tls.crt": pem.cert, "tls.key": pem.key, "ca.crt": pem.cert}
        data = {key: base64.b64encode(text).decode() for key, text in texts.items()}
        meta = {"name": "kafka-ca", "namespace": namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": meta}
        await kube.apply({**secret, "data": data}, namespace)

    assert (await look()).problem == "The Secret does not exist."
    first, second = ca.make_ca("first"), ca.make_ca("second")
    await write(first)
    held = (await look()).certificate
    assert held is not None
    source = ("kafka-ca", held.fingerprint)
    birth = IssueCa(
        secret="demo-ca",  # noqa: S106 - a name
        metadata={"name": "demo-ca", "labels": LABELS},
        source=source,
    )
    assert await act(birth) == [DONE]
    stored = (await kube.get(SECRET, namespace, "demo-ca"))["data"]
    assert base64.b64decode(stored["ca.crt"]) == first.cert
    assert base64.b64decode(stored["ca.key"]) == first.key

    await write(second)
    seen = await observe(kube, named, KafkaExecutor("test", 1), Surroundings("image"))
    ours = next(view for view in seen.snapshot.secrets if view.metadata["name"] == "demo-ca")
    turn = TurnCa(
        secret="demo-ca",  # noqa: S106 - a name
        uid=ours.metadata["uid"],
        resource_version=ours.metadata["resourceVersion"],
        step="announce",
        annotations={},
        source=source,
    )
    assert await act(turn) == [FAILED], "the Secret holds another one than was looked at"
    held = (await look()).certificate
    assert held is not None
    assert await act(replace(turn, source=("kafka-ca", held.fingerprint))) == [DONE]
    stored = (await kube.get(SECRET, namespace, "demo-ca"))["data"]
    assert base64.b64decode(stored["next.crt"]) == second.cert
    assert base64.b64decode(stored["ca.crt"]) == first.cert, "the one before still signs"
