"""An agent lives by when this operator saw its Lease change; the clock that wrote it is only measured."""

from base64 import b64encode
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from spindle_agent.broker import keys
from spindle_operator.agents import AgentMonitor
from spindle_shared.api_answers import ApiError
from tests.unit.operator_fakes import FakeKube

PATH = "/apis/coordination.k8s.io/v1/namespaces/agents/leases/spindle-agent-n"


class World:
    """One agent that renews every ten seconds, and a watch that looks every five."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ahead: float = 0.0) -> None:
        self.now, self.ahead = 1_000_000.0, ahead
        self.renews = True
        self.kube = FakeKube()
        self.woken = 0
        clock = SimpleNamespace(monotonic=lambda: self.now - 900_000.0, time=lambda: self.now)
        monkeypatch.setattr("spindle_operator.agents.time", clock)
        self.renew()
        self.watch = self.started()

    def started(self) -> AgentMonitor:
        """What an operator has that has just started."""
        return AgentMonitor(self.kube, "agents", self._changed)

    def _changed(self) -> None:
        self.woken += 1

    def renew(self) -> None:
        text = datetime.fromtimestamp(self.now + self.ahead, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        meta = {"name": "spindle-agent-n"}
        self.kube.objects[PATH] = {"metadata": meta, "spec": {"holderIdentity": "a", "renewTime": text}}

    async def go_on(self, seconds: int) -> None:
        for _ in range(0, seconds, 5):
            if self.renews and self.now % 10 == 0:
                self.renew()
            self.now += 1
            await self.watch.look()
            self.now += 4

    @property
    def agent(self) -> Any:
        return self.watch.agents()["n"]


@pytest.mark.parametrize("ahead", [-900.0, -45.0, 0.0, 45.0, 660.0])
async def test_an_agent_that_renews_lives_whatever_its_clock_says(
    monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    world = World(monkeypatch, ahead)
    await world.go_on(60)

    assert world.agent.alive
    assert world.agent.ahead == pytest.approx(ahead, abs=5.0)
    assert (world.agent.offset == 0.0) is (ahead == 0.0)


async def test_an_operator_that_has_just_started_knows_neither_life_nor_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(
        monkeypatch, ahead=660.0
    )  # its last word seems to be of the future, as it has been for who knows how long
    world.renews = False
    await world.watch.look()
    assert (world.agent.alive, world.agent.silent) == (False, False)

    await world.go_on(40)
    assert (world.agent.alive, world.agent.silent) == (False, True)

    world.renews = True
    woken = world.woken
    await world.go_on(20)
    assert world.agent.alive
    assert world.woken == woken + 1


async def test_which_configmap_an_agent_reads_is_on_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    await world.watch.look()
    woken = world.woken
    for said, parts in (("16", True), ("64", False)):  # other parts are not those that it reads
        world.kube.objects[PATH]["metadata"]["annotations"] = {"spindle.dev/certificate-parts": said}
        await world.watch.look()
        woken += 1
        assert (world.agent.reads_parts, world.woken) == (parts, woken)


async def test_an_agent_that_stops_falls_silent_after_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    await world.go_on(30)
    world.renews = False
    await world.go_on(15)
    assert world.agent.alive
    await world.go_on(30)
    assert world.agent.silent


async def test_time_in_which_nobody_looked_proves_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    await world.go_on(30)
    world.kube.failures = {("list", "leases"): ApiError(503, "", "away")}
    world.renews = False
    await world.go_on(120)
    assert world.watch.problem is not None
    assert (world.agent.alive, world.agent.silent) == (False, False)

    world.kube.failures = {}
    await world.go_on(10)
    assert world.watch.problem is None
    assert (world.agent.alive, world.agent.silent) == (False, False)
    await world.go_on(40)
    assert world.agent.silent


async def test_a_clock_that_is_set_right_is_told_within_a_minute_or_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, ahead=45.0)
    await world.go_on(60)
    assert world.agent.offset > 0
    world.ahead = 0.0
    await world.go_on(80)
    assert world.agent.offset == 0.0


async def test_a_lease_that_is_made_anew_was_heard_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    await world.go_on(30)
    del world.kube.objects[PATH]
    world.renews = False
    await world.go_on(5)
    assert world.agent.alive
    await world.go_on(60)
    assert world.watch.agents() == {}


def request_of_a_strange_type() -> str:
    """Its name is a bit string, which no name is."""
    kind = _ASN1Type.BitString
    name = x509.NameAttribute(NameOID.X500_UNIQUE_IDENTIFIER, b"spindle-agent.n", kind)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([name]))
    der = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.DER)
    oid = bytes((0x06, 0x03, 0x55, 0x04))
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{b64encode(der.replace(oid + bytes((45,)), oid + bytes((3,)))).decode()}\n-----END CERTIFICATE REQUEST-----\n"


async def test_what_one_node_writes_does_not_keep_the_others_from_being_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    await world.go_on(30)
    bad = PATH.replace("agent-n", "agent-a")
    world.kube.objects = {
        bad: {**world.kube.objects[PATH], "metadata": {"name": "spindle-agent-a"}},
        **world.kube.objects,
    }
    for number in range(60):
        text = request_of_a_strange_type() + f"{number}"  # another one each time
        world.kube.objects[bad]["metadata"]["annotations"] = {"spindle.dev/signing-request": text}
        await world.go_on(5)
        assert world.agent.alive


async def test_whoever_asks_in_another_nodes_name_or_with_nonsense_asks_for_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)
    good, other = (keys.parse(keys.make(node)).request.decode() for node in ("n", "m"))

    async def asked(text: str) -> Any:
        world.kube.objects[PATH]["metadata"]["annotations"] = {"spindle.dev/signing-request": text}
        await world.watch.look()
        await world.watch.look()
        return world.agent.request

    assert (await asked(good)).pem == good
    woken = world.woken
    for bad in (other, "nonsense", good * 12, good.replace("A", "B")):
        assert await asked(bad) is None
    assert world.woken == woken + 1, "whoever issues certificates is woken when the key is another one"
    assert len(caplog.records) == 4, "each is told of once"
    assert "it requests CN=spindle-agent.m instead of CN=spindle-agent.n" in caplog.text
