"""At no moment of a replacement of the authority, however it is interrupted, does anybody show what another one does not trust."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.api import names
from spindle.model.actions import TurnCa
from spindle.reconcile.plan import plan
from tests.examples import examples
from tests.model.store import ConflictError
from tests.model.world import YEARS, World

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

GRACE = 120


class Watched:
    """A world in which it is noted what every process has in its memory.

    A process has what it was started with for as long as it lives (its client for the quorum), and beside it whatever its
    mounted Secret has said since then (its listeners, which may read it anew at any time, or late). A client has what its
    Secret said at any time within its grace.
    """

    def __init__(self) -> None:
        self.world = World.of(security={"clientGraceSeconds": GRACE})
        self.world.settle()
        self.past: dict[str, list[tuple[float, str, frozenset[str]]]] = {}
        self.started: dict[str, float] = {}
        self.users = 0
        self.backups: list[dict[str, Any]] = []  # of the authority's Secret, one of each state
        self.look()

    def look(self) -> None:
        for secret in self.world.all("Secret"):
            view, name = secret["view"], secret["metadata"]["name"]
            if name == names.ca_secret("demo"):
                if not self.backups or self.backups[-1]["view"] != view:
                    self.backups.append(copy.deepcopy(secret))
                continue
            facts = ("" if "password" in view else view["issuer"], frozenset(view["trust"]))
            past = self.past.setdefault(name, [])
            if not past or past[-1][1:] != facts:
                past.append((self.world.now, *facts))
        for pod in self.world.all("Pod"):
            self.started.setdefault(pod["metadata"]["uid"], self.world.now)

    def held(self) -> list[tuple[str, str, frozenset[str]]]:
        """Who may have which certificate and trust now: name, issuer, trusted."""
        found: list[tuple[str, str, frozenset[str]]] = []
        pods = {f"{pod['metadata']['name']}-tls": pod for pod in self.world.all("Pod")}
        for name, past in self.past.items():
            if name.endswith("-tls") and name not in pods:
                continue
            since = self.started[pods[name]["metadata"]["uid"]] if name in pods else self.world.now - GRACE
            first = max((i for i, entry in enumerate(past) if entry[0] <= since), default=0)
            found += [(name, issuer, trust) for _, issuer, trust in past[first:]]
        return found

    def check(self) -> None:
        held = self.held()
        shown = {issuer for _, issuer, _ in held if issuer}
        for name, _, trust in held:
            assert shown <= trust, f"{name} does not trust {shown - trust}"

    def comes(self, authentication: str) -> None:
        """Somebody makes one more KafkaUser."""
        self.users += 1
        name = f"user{self.users}"
        spec = {"cluster": "demo", "authentication": authentication}
        self.world.put(
            {
                "kind": "KafkaUser",
                "metadata": {"name": name, "namespace": "kafka", "generation": 1},
                "spec": spec,
            }
        )

    def ages(self) -> None:
        """The certificates of all clients come into the last third of their time."""
        for secret in self.world.all("Secret"):
            name = secret["metadata"]["name"]
            if name != names.ca_secret("demo") and not name.endswith("-tls"):
                secret["view"]["issued"] = self.world.now - 0.9 * YEARS
                self.world.put(secret)

    def happens(self, what: str) -> None:
        if what == "ages":
            self.ages()
        elif what:
            self.comes(what)

    def step(self, most: int) -> None:
        """A pass that ends after so many actions, whoever carries them out."""
        made = plan(self.world.snapshot(), self.world.now)
        self.world.cluster["status"] = {**self.world.cluster.get("status", {}), **made.status}
        for action in made.actions[:most]:
            try:
                self.world.act(action)
            except ConflictError:
                if isinstance(action, TurnCa):
                    break
            self.look()
            self.check()


@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_from_every_interrupted_state(data: Any) -> None:
    watched = Watched()
    watched.world.cluster["spec"]["security"]["rotate"] = "1"
    events = st.sampled_from(["", "", "", "", "mtls", "scram", "ages"])
    cuts = data.draw(st.lists(st.tuples(st.integers(0, 9), events), min_size=20, max_size=60))
    for most, what in cuts:
        watched.happens(what)
        watched.step(most)
        watched.world.breathe()
        watched.look()
        watched.check()
    for number in range(400):
        # Sooner than the grace is over: neither may make it begin anew.
        watched.happens({0: "mtls", 7: "scram", 14: "ages"}.get(number % 20, ""))
        watched.step(1000)
        watched.world.breathe()
        watched.look()
        watched.check()
        authority = watched.world.get("Secret", "demo-ca")["view"]
        if authority["fingerprint"] != "ca" and not authority.get("former"):
            break
    shown = {issuer for name, issuer, _ in watched.held() if name.endswith("-tls")}
    assert "ca" not in shown, "it never comes to its end"
    # And when a backup of the authority is put back afterwards, of whichever step, nobody is shut out either.
    for _ in range(120):
        watched.step(1000)
        watched.world.breathe()
        watched.look()
    now = watched.world.get("Secret", "demo-ca")["metadata"]
    backup = data.draw(st.sampled_from(watched.backups))
    watched.world.put({**backup, "metadata": {**backup["metadata"], "uid": now["uid"]}})
    for most in data.draw(st.lists(st.integers(0, 9), min_size=20, max_size=40)):
        watched.step(most)
        watched.world.breathe()
        watched.look()
        watched.check()
