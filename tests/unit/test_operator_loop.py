"""The loop with a stand-in for the API server; the pace is real, but short."""

import asyncio
import json
import logging
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from spindle.model.actions import Apply, Create
from spindle.reconcile import batches
from spindle.reconcile.plan import Event, ReconcilePlan
from spindle_operator import act as act_module
from spindle_operator import loop as loop_module
from spindle_operator.act import CONFLICT, DONE, Result
from spindle_operator.health import Health
from spindle_operator.kinds import KAFKA_CLUSTER
from spindle_operator.lag_exporter import LagExporter
from spindle_operator.loop import FINALIZER, ClusterLoop, Loops, Setup, backoff, brief, sentence
from spindle_operator.report import Events
from spindle_shared import logs
from spindle_shared.api_answers import ApiError
from tests.unit.operator_fakes import FakeKube, cluster

PATH = KAFKA_CLUSTER.path("ns", "demo")
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}


class Deciding:
    """Stands in for the plan."""

    def __init__(self) -> None:
        self.plans: list[ReconcilePlan | Exception] = []
        self.calls = 0
        self.refused: list[tuple[str, ...]] = []  # messages in the snapshots

    def __call__(self, snapshot: Any, _now: float) -> Any:
        self.calls += 1
        self.refused.append(tuple(each.message for each in snapshot.refused))
        nxt = self.plans.pop(0) if self.plans else ReconcilePlan(settled=True)
        if isinstance(nxt, Exception):
            raise nxt
        return nxt


class World:
    def __init__(self, **options: Any) -> None:
        self.kube = FakeKube()
        self.kube.objects[PATH] = cluster(finalizers=[FINALIZER])
        self.decide = Deciding()
        self.health = Health()
        self.leads = True
        self.lost: list[bool] = []
        self.loops = Loops(
            Setup(
                kube=self.kube,
                health=self.health,
                events=Events(self.kube, "me"),
                image="image",
                leading=lambda: self.leads,
                lost=lambda: self.lost.append(True),
                decide=self.decide,
                **{"resync": 30.0, "kafka_timeout": 0.1, **options},
            )
        )

    @property
    def alive(self) -> bool:
        return bool(self.loops._loops)

    async def until(self, condition: Any, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come to pass"
            await asyncio.sleep(0.01)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(loop_module, "DEBOUNCE", 0.05)
    monkeypatch.setattr(loop_module, "AGAIN", 0.05)
    monkeypatch.setattr(loop_module, "BACKOFF", (0.05, 0.2))
    world = World()
    yield world
    await world.loops.close()


async def test_many_events_are_one_pass(world: World) -> None:
    for _ in range(1000):
        world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls == 1)
    await asyncio.sleep(0.2)
    assert world.decide.calls <= 2


async def test_after_an_action_it_looks_again_at_once(world: World) -> None:
    world.decide.plans = [
        ReconcilePlan(actions=(Apply(object=MAP),)),
        ReconcilePlan(actions=(Apply(object=MAP),)),
        ReconcilePlan(settled=True),
    ]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls == 3)
    await asyncio.sleep(0.2)
    assert world.decide.calls == 3, "a settled cluster is left alone until the resync"


async def test_each_pass_has_its_own_id_in_its_lines(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logs.set_up(as_json=True, quiet={})
    try:
        world.decide.plans = [ValueError("nonsense"), ValueError("nonsense"), ReconcilePlan(settled=True)]
        world.loops.seen("ns", "demo")
        await world.until(lambda: world.decide.calls == 3)
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert all(line.get("pass") for line in lines)
    assert len({line["pass"] for line in lines if "the pass failed" in line["event"]}) == 2


async def test_an_error_is_backed_off_and_survived_and_told(world: World) -> None:
    world.decide.plans = [ValueError("nonsense"), ValueError("nonsense"), ReconcilePlan(settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls == 3)
    assert world.alive
    told = [body["message"] for verb, _, body in world.kube.calls if verb == "create"]
    assert len(told) == 1
    assert "nonsense" in told[0]


async def test_a_pass_that_does_not_end_is_ended_and_told_and_the_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "LONGEST", 0.3)
    world.kube.objects[KAFKA_CLUSTER.path("ns", "other")] = cluster(finalizers=[FINALIZER])
    held, calm = threading.Event(), world.decide

    class Held:
        """Never comes to an end for one of them."""

        calls = 0

        def __call__(self, snapshot: Any, now: float) -> Any:
            if threading.current_thread().name.startswith("plan-ns/demo"):
                self.calls += 1
                held.wait()
            return calm(snapshot, now)

    slow = Held()
    world.loops._setup = replace(world.loops._setup, decide=slow)
    world.loops.seen("ns", "demo")
    try:

        def told() -> list[str]:
            return [body["message"] for verb, _, body in world.kube.calls if verb == "create"]

        await world.until(lambda: any("it did not finish within" in message for message in told()))
        # It is not worked out a second time beside the first.
        await world.until(lambda: any("plan of an earlier pass" in message for message in told()))
        assert slow.calls == 1
        world.loops.seen("ns", "other")
        await world.until(lambda: calm.calls >= 1)
        assert world.health.problem() is None
    finally:
        held.set()


@pytest.mark.parametrize("limit", ["MOST", "MOST_OF_A_KIND"])
async def test_a_long_list_is_done_in_batches_and_what_is_all_refused_keeps_nobody_from_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(batches, limit, 2)
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{i}"}} for i in range(5)]
    many = ReconcilePlan(actions=tuple(Apply(object=each) for each in maps))
    for name in ("m0", "m1"):
        world.kube.failures["create", name] = ApiError(403, "Forbidden", "a quota")
    world.decide.plans = [many, many, ReconcilePlan(settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls >= 3)
    applied = [name for verb, name, _ in world.kube.calls if verb == "create" and name.startswith("m")]
    assert applied == ["m0", "m1", "m2", "m3"]


async def test_what_the_api_server_refused_is_in_the_next_snapshot_and_no_longer(world: World) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    world.kube.failures["create", "p"] = ApiError(403, "Forbidden", "exceeded quota: small")
    create = ReconcilePlan(actions=(Create(object=pod),))
    world.decide.plans = [create, ReconcilePlan(), create, ReconcilePlan(settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls >= 2)
    world.kube.failures.clear()
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls >= 4)
    assert world.decide.refused[:4] == [(), ("exceeded quota: small",), (), ()]


async def test_a_refused_status_is_told_by_an_event_and_a_metric_and_is_in_the_next_snapshot(
    world: World,
) -> None:
    text = 'admission webhook "policy.example.com" denied the request: no'
    world.kube.failures["apply", "demo/status"] = ApiError(403, "Forbidden", text)
    labels = {"namespace": "ns", "kafka_cluster": "demo", "type": "WriteStatus", "outcome": "refused"}
    before = REGISTRY.get_sample_value("spindle_actions_total", labels) or 0.0
    world.decide.plans = [ReconcilePlan(status={"phase": "busy"}, settled=True), ReconcilePlan(settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls >= 2)
    (event,) = [body for verb, _, body in world.kube.calls if verb == "create"]
    assert event["reason"] == "RequestRefused"
    assert f"refuses writing the status of KafkaCluster demo (403): {text}" in event["message"]
    assert "Change the webhook" in event["message"]
    assert world.decide.refused[:2] == [(), (text,)]
    assert REGISTRY.get_sample_value("spindle_actions_total", labels) == before + 1


async def test_a_refused_finalizer_is_told(world: World) -> None:
    world.kube.objects[PATH] = cluster(finalizers=["other/one"])
    world.kube.failures["patch", "demo"] = ApiError(403, "Forbidden", "cannot patch resource kafkaclusters")
    world.loops.seen("ns", "demo")
    await world.until(lambda: len(world.kube.done("patch")) >= 2)
    (event,) = [body for verb, _, body in world.kube.calls if verb == "create"]
    assert event["reason"] == "RequestRefused"
    assert "refuses changing KafkaCluster demo (403): cannot patch" in event["message"]
    assert "upgrade or reinstall the chart" in event["message"]
    world.kube.failures.clear()
    await world.until(lambda: world.decide.calls >= 1)


async def test_acting_leaves_time_to_tell_what_was_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act_module, "ACTING", -1.0)
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{i}"}} for i in range(3)]
    many = ReconcilePlan(actions=tuple(Apply(object=each) for each in maps), status={"phase": "busy"})
    world.decide.plans = [many, ReconcilePlan(settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls >= 2)
    applied = [name for verb, name, _ in world.kube.calls if verb == "create" and name.startswith("m")]
    assert applied == ["m0"]
    assert "busy" in str(world.kube.calls)


async def test_an_api_server_that_is_away_is_waited_for(world: World) -> None:
    world.kube.failures = {"find": ApiError(0, "ClientConnectorError", "nobody there")}
    world.loops.seen("ns", "demo")
    await world.until(lambda: len(world.kube.done("find")) >= 3)
    world.kube.failures = {}
    await world.until(lambda: world.decide.calls == 1)


async def test_the_finalizer_is_set_before_anything_else(world: World) -> None:
    world.kube.objects[PATH] = cluster(finalizers=["other/one"])
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls == 1)
    verb, name, body = next(call for call in world.kube.calls if call[0] == "patch")
    assert (verb, name) == ("patch", "demo")
    assert body["metadata"]["finalizers"] == ["other/one", FINALIZER]
    assert body["metadata"]["resourceVersion"] == "7"


async def test_a_deleted_cluster_gets_its_last_passes_and_then_is_let_go(world: World) -> None:
    # Also if it was deleted while no operator ran: this is the first that this process sees of it.
    world.kube.objects[PATH] = cluster(
        finalizers=[FINALIZER, "other/one"], deletionTimestamp="2026-01-01T00:00:00Z"
    )
    world.decide.plans = [ReconcilePlan(actions=(Apply(object=MAP),)), ReconcilePlan(finished=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: not world.alive)
    assert world.decide.calls == 2
    (body,) = [body for verb, _, body in world.kube.calls if verb == "patch"]
    assert body["metadata"]["finalizers"] == ["other/one"]


async def test_a_cluster_that_is_not_there_ends_the_loop(world: World) -> None:
    del world.kube.objects[PATH]
    world.loops.seen("ns", "demo")
    await world.until(lambda: not world.alive)
    assert world.decide.calls == 0
    assert world.health.ages() == {}


async def test_a_cluster_made_again_while_its_loop_ends_gets_a_new_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world.kube.objects[PATH]
    world.loops.seen("ns", "demo")
    loop = world.loops._loops["ns", "demo"]
    find = world.kube.find

    async def find_and_meanwhile(kind: Any, namespace: str, name: str) -> Any:
        answer = await find(kind, namespace, name)
        if answer is None:
            world.kube.objects[PATH] = cluster(finalizers=[FINALIZER])
            loop.wake()
        return answer

    monkeypatch.setattr(world.kube, "find", find_and_meanwhile)
    await world.until(lambda: world.decide.calls == 1)
    assert world.alive


async def test_events_of_unknown_clusters_start_nothing(world: World) -> None:
    world.loops.wake("ns", "demo")
    world.loops.wake_all()
    assert not world.alive


async def test_a_lost_lease_ends_the_loop_before_it_writes(world: World) -> None:
    world.leads = False
    world.decide.plans = [ReconcilePlan(actions=(Create(object=MAP),), status={"phase": "x"})]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.lost)
    assert not world.kube.done("create")
    assert not world.kube.done("apply")


async def test_a_paused_cluster_is_reported_like_any_other(world: World) -> None:
    world.kube.objects[PATH]["spec"] = {"paused": True}
    world.decide.plans = [ReconcilePlan(status={"phase": "paused"}, settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.kube.done("apply") == ["demo/status"])


async def test_an_alarm_waits_for_no_other_events(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "DEBOUNCE", 30.0)
    world.loops.seen("ns", "demo")
    await asyncio.sleep(0.1)
    assert world.decide.calls == 0
    world.loops.wake("ns", "demo", urgent=True)
    await world.until(lambda: world.decide.calls == 1)
    world.loops.wake("ns", "demo")
    await asyncio.sleep(0.1)
    assert world.decide.calls == 1, "the next event gathers again"


async def test_an_alarm_ends_the_pause_after_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "backoff", lambda _: 30.0)
    world.decide.plans = [ValueError("nonsense"), ReconcilePlan(settled=True)]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls == 1)
    world.loops.wake("ns", "demo")
    await asyncio.sleep(0.2)
    assert world.decide.calls == 1
    world.loops.wake("ns", "demo", urgent=True)
    await world.until(lambda: world.decide.calls == 2)


async def test_an_alarm_during_a_pass_is_looked_into_right_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "DEBOUNCE", 3600.0)
    find, passes = world.kube.find, []

    async def find_and_meanwhile(kind: Any, namespace: str, name: str) -> Any:
        passes.append(name)
        if len(passes) == 1:
            world.loops.wake("ns", "demo", urgent=True)
        return await find(kind, namespace, name)

    monkeypatch.setattr(world.kube, "find", find_and_meanwhile)
    world.loops.seen("ns", "demo")
    world.loops.wake("ns", "demo", urgent=True)
    await world.until(lambda: len(passes) >= 2)


async def test_what_was_seen_is_told_before_anything_is_done_about_it(world: World) -> None:
    event = Event("Warning", "DiskFailed", "disk0 is dead.", "KafkaCluster", "demo", "u-1")
    world.decide.plans = [ReconcilePlan(actions=(Apply(object=MAP, reason="Done"),), events=(event,))]
    world.loops.seen("ns", "demo")
    await world.until(lambda: world.decide.calls == 2)
    told = [
        body.get("reason", body["metadata"].get("name"))
        for verb, _, body in world.kube.calls
        if verb == "create"
    ]
    assert told[:3] == ["DiskFailed", "m", "Done"]


def pace(loop: ClusterLoop, outcomes: list[str], *, settled: bool = False) -> float:
    return loop._next([Result(Apply(object=MAP), outcome) for outcome in outcomes], settled=settled)


async def test_pace() -> None:
    world = World()
    world.loops.seen("ns", "demo")
    loop = world.loops._loops["ns", "demo"]
    assert pace(loop, [DONE, CONFLICT]) == loop_module.AGAIN
    assert [pace(loop, [CONFLICT]) for _ in range(3)] == [1, 2, 4]
    assert 25 <= pace(loop, [], settled=True) <= 35
    assert [pace(loop, []) for _ in range(5)] == [2, 4, 8, 15, 15]
    loop._streak = loop_module.RESTLESS + 10
    assert pace(loop, [DONE]) == loop_module.BACKOFF[1]
    await world.loops.close()


def test_backoff_is_bounded() -> None:
    assert [backoff(n) for n in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]


def test_a_pass_is_one_sentence() -> None:
    results = [Result(Apply(object=MAP), DONE), Result(Create(object=MAP), CONFLICT, "x")] * 6
    text = sentence("ns/demo", results, 2, 1.26)
    assert text.startswith("ns/demo: Apply ConfigMap m; Create ConfigMap m (conflict); ")
    assert text.endswith("; 4 more; 2 statuses written (took 1.3 s)")


def test_brief() -> None:
    assert brief("short") == "short"
    assert len(brief("x" * 1000)) == 300


class Cached:
    """Stands in for the cache: it answers everything, with nothing."""

    def __init__(self) -> None:
        self.asked = 0

    async def items(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        self.asked += 1
        return []

    def same(self, *_: Any, **__: Any) -> Any:
        """It holds nothing that a list could be spared."""
        return lambda listed: listed

    async def close(self) -> None:
        """Nothing to end."""


async def test_what_a_cache_leads_to_is_planned_again_on_lists(caplog: pytest.LogCaptureFixture) -> None:
    world = World(resync=0.01)
    cache = world.loops._mirror = Cached()  # type: ignore[assignment]
    world.decide.plans = [
        ReconcilePlan(settled=True),  # the first pass of a process lists
        ReconcilePlan(actions=(Create(object=MAP),)),  # from the cache: not carried out
        ReconcilePlan(settled=True),  # from lists: nothing is to be done
    ]
    try:
        world.loops.seen("ns", "demo")
        async with asyncio.timeout(10):
            while world.decide.calls < 5:  # noqa: ASYNC110 - the loop under test has no event for it
                await asyncio.sleep(0.01)
    finally:
        await world.loops.close()
    assert cache.asked > 0
    assert [verb for verb, _, _ in world.kube.calls if verb == "create"] == []
    assert "planned from a cache" not in caplog.text  # the executor did not have to refuse it


async def test_after_a_write_nothing_is_read_from_the_cache() -> None:
    world = World(resync=0.01)
    cache = world.loops._mirror = Cached()  # type: ignore[assignment]
    world.decide.plans = [ReconcilePlan(actions=(Create(object=MAP),)) for _ in range(3)]
    asked = []
    decide = world.decide

    def counted(snapshot: Any, now: float) -> Any:
        asked.append(cache.asked)
        return decide(snapshot, now)

    world.loops._setup = replace(world.loops._setup, decide=counted)
    try:
        world.loops.seen("ns", "demo")
        async with asyncio.timeout(10):
            while decide.calls < 6:  # noqa: ASYNC110 - the loop under test has no event for it
                await asyncio.sleep(0.01)
    finally:
        await world.loops.close()
    assert asked[:4] == [0, 0, 0, 0]  # three passes that wrote, and the one after them
    assert asked[5] > 0


async def test_what_a_cache_leads_to_is_not_told_either() -> None:
    world = World(resync=0.01)
    world.loops._mirror = Cached()  # type: ignore[assignment]
    told = Event("Warning", "OldNews", "it was so a while ago", "KafkaCluster", "demo", "u-1")
    world.decide.plans = [
        ReconcilePlan(settled=True),  # the first pass of a process lists
        ReconcilePlan(settled=True, events=(told,)),  # from the cache
        ReconcilePlan(settled=True),  # from lists: it is not so any more
    ]
    try:
        world.loops.seen("ns", "demo")
        await world.until(lambda: world.decide.calls >= 5)
    finally:
        await world.loops.close()
    assert [path for verb, path, _ in world.kube.calls if verb == "create"] == []


async def test_an_event_of_each_pass_does_not_lead_to_lists_each_time() -> None:
    world = World(resync=0.01)
    cache = world.loops._mirror = Cached()  # type: ignore[assignment]
    told = Event("Warning", "SpecOdd", "it is so all the time", "KafkaCluster", "demo", "u-1")
    world.decide.plans = [ReconcilePlan(settled=True, events=(told,)) for _ in range(20)]
    try:
        world.loops.seen("ns", "demo")
        await world.until(lambda: world.decide.calls >= 9)
    finally:
        await world.loops.close()
    kinds = cache.asked / (world.decide.calls - 2)
    assert kinds >= 10, "each pass but the first should have been read from the cache alone"


async def test_the_second_look_of_a_pass_has_what_people_want_by_then() -> None:
    world = World(resync=0.01)
    world.loops._mirror = Cached()  # type: ignore[assignment]
    versions: list[str] = []

    def decide(snapshot: Any, _now: float) -> Any:
        versions.append(snapshot.cluster["metadata"]["resourceVersion"])
        if len(versions) == 2:  # from the cache; meanwhile somebody changes the KafkaCluster
            changed = json.loads(json.dumps(world.kube.objects[PATH]))
            changed["metadata"]["resourceVersion"] = "77"
            world.kube.objects[PATH] = changed
            return ReconcilePlan(actions=(Create(object=MAP),))
        return ReconcilePlan(settled=True)

    world.loops._setup = replace(world.loops._setup, decide=decide)
    try:
        world.loops.seen("ns", "demo")
        await world.until(lambda: len(versions) >= 3)
    finally:
        await world.loops.close()
    assert versions[2] == "77"


async def test_a_pass_tells_the_exporter_of_consumer_lag_what_it_saw(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Any, ...]] = []
    ended: list[str] = []

    async def follow(_: LagExporter, *seen: Any) -> None:
        told.append(seen)

    async def close(exporter: LagExporter) -> None:
        ended.append(exporter._cluster)

    monkeypatch.setattr(LagExporter, "follow", follow)
    monkeypatch.setattr(LagExporter, "close", close)
    world.loops.seen("ns", "demo")
    await world.until(lambda: told)
    lag, access, view = told[0]
    assert not lag.enabled
    assert access == "no broker runs yet"
    assert view.error == access
    await world.loops.close()
    assert ended == ["ns/demo"]
