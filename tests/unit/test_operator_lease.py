"""The elector against a lease in memory. The clock is its own: tests turn it by hand."""

import json
from typing import Any

import pytest

from spindle_operator import lease as lease_module
from spindle_operator.kube import Kube
from spindle_operator.lease import DEADLINE, DURATION, Elector
from spindle_shared.api_answers import ApiError


class Store(Kube):
    """One Lease, as the API server would keep it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.loses_answers = False
        self.behind_a_proxy = False  # which answers in the server's place
        self.asked: list[tuple[str, float | None]] = []  # method and timeout of each request

    async def request(
        self, method: str, path: str, query: Any = None, body: Any = None, *_: Any, **how: Any
    ) -> Any:
        self.asked.append((method, how.get("timeout")))
        if self.down:
            raise ApiError(0, "ClientConnectorError", "nobody there")
        if self.behind_a_proxy:
            return {}
        if method == "GET":
            if self.lease is None:
                raise ApiError(404, "NotFound", "no lease")
            return json.loads(json.dumps(self.lease))
        if method == "POST" and self.lease is not None:
            raise ApiError(409, "AlreadyExists", "exists")
        if method == "PUT" and body["metadata"]["resourceVersion"] != str(self.version):
            raise ApiError(409, "Conflict", "changed")
        self.version += 1
        lease: dict[str, Any] = json.loads(json.dumps(body))
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = lease
        if self.loses_answers:
            raise ApiError(0, "TimeoutError", "no answer")
        return json.loads(json.dumps(lease))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Clock:
        now = 100.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(lease_module, "time", clock)
    return clock


def elector(store: Store, name: str) -> Elector:
    return Elector(store, "ns", "lease", name)


async def test_the_first_candidate_leads_and_the_second_waits_until_the_lease_has_run_out(clock: Any) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")
    await first._try_acquire()
    assert first.leading
    await second._try_acquire()
    clock.now += DURATION - 0.1
    await second._try_acquire()
    assert not second.leading
    assert not first.leading, "the holder must have stopped well before anybody else may start"
    clock.now += 0.2
    await second._try_acquire()
    assert second.leading
    assert store.lease["spec"]["leaseTransitions"] == 1


async def test_a_renewed_lease_is_not_taken(clock: Any) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")
    await first._try_acquire()
    for _ in range(20):
        clock.now += 2
        await second._try_acquire()
        assert await first._renew(DEADLINE)
    assert first.leading
    assert not second.leading


async def test_one_request_renews_a_lease_that_nobody_else_has_changed(clock: Any) -> None:
    store = Store()
    first = elector(store, "first")
    await first._try_acquire()
    assert await first._renew(DEADLINE)
    store.asked.clear()
    assert await first._renew(DEADLINE)
    assert [method for method, _ in store.asked] == ["PUT"]


async def test_a_lease_that_was_edited_by_hand_is_read_again_and_stays(clock: Any) -> None:
    store = Store()
    first = elector(store, "first")
    await first._try_acquire()
    assert await first._renew(DEADLINE)
    assert store.lease is not None
    store.version += 1
    store.lease["metadata"] |= {"resourceVersion": str(store.version), "labels": {"a": "b"}}
    assert await first._renew(DEADLINE) is None
    assert await first._renew(DEADLINE)
    assert store.lease["metadata"]["labels"] == {"a": "b"}


async def test_an_answer_that_is_lost_leaves_time_for_another_attempt(clock: Any) -> None:
    store = Store()
    first = elector(store, "first")
    await first._try_acquire()
    assert await first._renew(DEADLINE)
    store.loses_answers = True
    left = DEADLINE - 2
    assert await first._renew(left) is None
    timeout = store.asked[-1][1]
    assert timeout is not None
    assert timeout <= left / 2
    store.loses_answers = False
    assert await first._renew(left - timeout)


async def test_an_answer_that_is_no_lease_is_neither_a_renewal_nor_the_loss_of_it(clock: Any) -> None:
    store = Store()
    first = elector(store, "first")
    await first._try_acquire()
    assert await first._renew(DEADLINE)
    store.behind_a_proxy = True
    clock.now += 9
    assert await first._renew(DEADLINE) is None
    assert await first._renew(DEADLINE) is None
    clock.now += 2
    assert not first.leading
    store.behind_a_proxy = False
    assert await first._renew(DEADLINE)


async def test_nobody_leads_by_answers_that_are_no_lease(clock: Any) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")
    store.behind_a_proxy = True
    await first._try_acquire()
    assert not first.leading
    store.behind_a_proxy = False
    await first._try_acquire()
    assert first.leading
    store.behind_a_proxy = True
    await second._try_acquire()
    assert not second.leading


async def test_a_shorter_duration_that_somebody_wrote_makes_no_second_leader(clock: Any) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")
    await first._try_acquire()
    await second._try_acquire()
    assert store.lease is not None
    store.lease["spec"]["leaseDurationSeconds"] = 1
    clock.now += DEADLINE - 1
    await second._try_acquire()
    assert first.leading
    assert not second.leading
    clock.now += DURATION
    await second._try_acquire()
    assert second.leading


async def test_a_lease_whose_content_somebody_removed_is_lost(clock: Any) -> None:
    store = Store()
    first = elector(store, "first")
    await first._try_acquire()
    assert store.lease is not None
    del store.lease["spec"]
    assert await first._renew(DEADLINE) is False
    await first.release()


async def test_a_released_lease_is_taken_at_once(clock: Any) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")
    await first._try_acquire()
    await second._try_acquire()
    await first.release()
    assert not first.leading
    await second._try_acquire()
    assert second.leading


async def test_the_holder_stops_by_its_own_clock_when_the_server_is_away(clock: Any) -> None:
    store = Store()
    first = elector(store, "first")
    await first._try_acquire()
    store.down = True
    clock.now += DEADLINE - 0.5
    assert await first._renew(0.5) is None
    assert first.leading
    clock.now += 1
    assert not first.leading


async def test_a_holder_that_was_overtaken_notices_and_does_not_release_the_others_lease(clock: Any) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")
    await first._try_acquire()
    await second._try_acquire()
    clock.now += DURATION + 1
    await second._try_acquire()
    assert await first._renew(DEADLINE) is False
    first._renewed_at = clock.now
    await first.release()
    assert store.lease is not None
    assert store.lease["spec"]["holderIdentity"] == "second"


async def test_of_two_that_create_it_at_once_one_leads(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    first, second = elector(store, "first"), elector(store, "second")

    async def nothing(_: float) -> None:
        return None

    await first._try_acquire()
    monkeypatch.setattr(second, "_read", nothing)
    await second._try_acquire()
    assert first.leading
    assert not second.leading
