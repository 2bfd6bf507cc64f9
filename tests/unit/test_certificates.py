"""What the operator writes into Secrets, with a stand-in for the API server."""

import base64
from typing import Any

import pytest

from spindle.model.actions import CopyCertificates, KeepPassword
from spindle_operator import ca
from spindle_operator.certificates import Certificates

CLUSTER = {"metadata": {"name": "demo", "namespace": "team-a", "uid": "u"}}


class FakeKube:
    """The Secrets of the CA and of a user."""

    def __init__(self, password: bytes) -> None:
        authority = ca.make_ca("CA", days=10)
        self.secrets = {
            "demo-ca": {"ca.crt": authority.cert, "ca.key": authority.key},
            "demo.user.ann": {"password": password},
        }
        self.labels = {"spindle.dev/usable-by": "demo"}

    async def get(self, _: Any, namespace: str, name: str) -> dict[str, Any]:
        assert namespace == "team-a"
        data = {key: base64.b64encode(value).decode() for key, value in self.secrets[name].items()}
        return {"metadata": {"name": name, "uid": "s", "labels": self.labels}, "data": data}


class FakeWriter:
    def __init__(self) -> None:
        self.written: list[Any] = []

    async def put(self, secret: Any, _: Any) -> None:
        self.written.append(secret)


async def keep(password: bytes) -> list[Any]:
    writer = FakeWriter()
    made = Certificates(FakeKube(password), CLUSTER, writer)  # type: ignore[arg-type]
    metadata = {"name": "demo.user.ann", "namespace": "team-a"}
    await made.keep_password(KeepPassword(metadata=metadata, user="ann", trusted=(), seen={"uid": "s"}))
    return writer.written


async def test_a_password_that_is_not_text_fails_this_action_only() -> None:
    """The executor takes RuntimeError as the failure of one action; another error would end every pass of the cluster."""
    with pytest.raises(
        RuntimeError, match=r"Secret demo\.user\.ann is not UTF-8.*spindle user password ann --new"
    ):
        await keep(b"\xff\xfe")


async def test_a_password_is_kept_as_it_is() -> None:
    (secret,) = await keep('zä"\\'.encode())
    login = base64.b64decode(secret["data"]["sasl.jaas.config"]).decode()
    assert login.endswith('username="ann" password="zä\\"\\\\";')


async def test_a_listeners_certificate_is_copied_with_its_key_as_kafka_reads_it_and_others_stay() -> None:
    made = ca.issue(ca.make_ca("elsewhere"), "kafka", ["a.example.com"])
    kube, writer = FakeKube(b""), FakeWriter()
    kube.secrets["theirs"] = {key: made[key] for key in ("tls.crt", "tls.key")}
    kube.secrets["demo-listeners"] = {"inside.pem": b"1", "inside.aa.pem": b"1", "gone.pem": b"2"}
    copier = Certificates(kube, CLUSTER, writer)  # type: ignore[arg-type]
    mark = ca.describe(made["tls.crt"]).fingerprint[:16]

    async def copy(expected: str) -> None:
        metadata = {"name": "demo-listeners"}
        sources = {"outside": ("theirs", expected)}
        await copier.copy(
            CopyCertificates(metadata=metadata, sources=sources, keep=("inside",), seen={"uid": "s"})
        )

    with pytest.raises(RuntimeError, match="Secret theirs has changed"):
        await copy("another")
    kube.labels = {}  # somebody else's by now
    with pytest.raises(RuntimeError, match="Secret theirs has changed"):
        await copy(mark)
    kube.labels = {"spindle.dev/usable-by": "demo"}
    assert not writer.written
    await copy(mark)
    (secret,) = writer.written
    assert set(secret["data"]) == {
        "inside.pem",
        "inside.aa.pem",
        "outside.pem",
        f"outside.{mark}.pem",
    }
    assert base64.b64decode(secret["data"]["outside.pem"]) == made["tls.key"] + made["tls.crt"]
    assert "spindle.dev/written" in secret["metadata"]["annotations"]
    await copier.copy(CopyCertificates(metadata={"name": "demo-listeners"}, sources={}, seen={"uid": "s"}))
    assert writer.written[-1]["data"] == {}
