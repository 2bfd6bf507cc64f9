"""Leader election with a Lease.

Own implementation, because the client library's elector never releases its Lease (so each rolling update of the operator would wait for
its expiry), does not limit single calls to the time left, and does not notice when its workload has ended. The rules are those of
client-go: a candidate trusts only its own clock, counting from when it last observed a change of the record;
the holder stops well before another candidate may take over.
"""

import asyncio
import logging
import random
import time
from datetime import UTC, datetime
from typing import Any, Final

from spindle_operator import metrics
from spindle_operator.kinds import LEASE
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

DURATION: Final = 15.0  # seconds after which others may take a Lease that is not renewed
DEADLINE: Final = 10.0  # seconds after the last renewal at which the holder stops
RETRY: Final = 2.0  # seconds between attempts
_SOON: Final = 0.5  # seconds after an attempt to renew that failed
_JITTER: Final = 0.2


class Elector:
    """One candidate for one Lease."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str) -> None:
        """A candidate.

        Args:
            kube: the API server.
            namespace: of the Lease.
            name: of the Lease.
            identity: unique among all candidates, past ones included: not only a host name.
        """
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._held: Json | None = None  # the Lease as this process last wrote it

    @property
    def leading(self) -> bool:
        """Whether this process certainly still holds the Lease, by its own clock, without a request."""
        return self._renewed_at is not None and time.monotonic() - self._renewed_at < DEADLINE

    async def acquire(self) -> None:
        """Wait until this process holds the Lease."""
        holder = None
        while True:
            lease = await self._try_acquire()
            if self.leading:
                log.info("leader as %s", self._identity)
                metrics.LEADER.set(1)
                return
            now_held_by = (lease or {}).get("spec", {}).get("holderIdentity")
            if now_held_by != holder:
                holder = now_held_by
                log.info("standby; the leader is %s", holder or "nobody")
            await asyncio.sleep(RETRY * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - no secret

    async def hold(self) -> None:
        """Renew the Lease; return when it is lost."""
        pause = RETRY
        while True:
            await asyncio.sleep(pause)
            left = DEADLINE - (time.monotonic() - (self._renewed_at or 0.0))
            if left <= 0:
                break
            renewed = await self._renew(left)
            if renewed is False:
                break
            pause = RETRY if renewed else _SOON
        self._renewed_at = self._held = None
        metrics.LEADER.set(0)
        log.error("the Lease is lost")

    async def release(self) -> None:
        """Release the Lease, so that another candidate need not wait for its expiry."""
        if not self.leading:
            return
        self._renewed_at = None
        metrics.LEADER.set(0)
        try:
            lease = await self._read(RETRY)
            if lease is None or not self._holds(lease):
                return
            await self._write(lease, holder="", duration=1, timeout=RETRY)
            log.info("released the Lease")
        except ApiError as error:
            log.warning("the Lease could not be released: %s", error)

    async def _try_acquire(self) -> Json | None:
        """Take the Lease if it is free; returns it as it was read, for its holder."""
        try:
            lease = await self._read(DEADLINE / 2)
            started = time.monotonic()
            if lease is None:
                await self._create()
                self._renewed_at = started
                return None
            if self._is_free(lease, started):
                # Held since the request, not since the response.
                await self._write(lease, holder=self._identity, duration=int(DURATION), timeout=DEADLINE / 2)
                self._renewed_at = started
        except ApiError as error:
            if not error.conflict:
                log.warning("the Lease could not be read or written: %s", error)
            return None
        return lease

    def _holds(self, lease: Json) -> bool:
        return bool((lease.get("spec") or {}).get("holderIdentity") == self._identity)

    def _is_free(self, lease: Json, now: float) -> bool:
        spec = lease.get("spec") or {}
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if record != self._seen:
            self._seen, self._seen_at = record, now
        if not spec.get("holderIdentity") or spec["holderIdentity"] == self._identity:
            return True
        # Not less than what the holder relies on, whatever somebody has written into the Lease.
        return now - self._seen_at > max(DURATION, float(spec.get("leaseDurationSeconds") or 0))

    async def _renew(self, left: float) -> bool | None:
        """Renew once: True if done, False if another candidate holds the Lease, None to retry.

        One request is enough while nobody else has changed the Lease. None takes more than half of the time left, so that there is
        time for another one if its answer is lost.
        """
        asked = time.monotonic()
        lease, self._held = self._held, None
        try:
            if lease is None:
                lease = await self._read(left / 2)
            if lease is None or not self._holds(lease):
                return False
            left -= time.monotonic() - asked
            if left <= 0:
                return None
            self._held = await self._write(
                lease, holder=self._identity, duration=int(DURATION), timeout=left / 2
            )
        except ApiError as error:
            log.warning("the Lease could not be renewed: %s", error)
            return None
        self._renewed_at = asked
        return True

    async def _read(self, timeout: float) -> Json | None:  # noqa: ASYNC109 - of the connection
        try:
            return _lease(
                await self._kube.request("GET", LEASE.path(self._namespace, self._name), timeout=timeout)
            )
        except ApiError as error:
            if error.gone:
                return None
            raise

    async def _create(self) -> None:
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec({}, self._identity, int(DURATION)),
        }
        _lease(await self._kube.request("POST", LEASE.path(self._namespace), body=body, timeout=DEADLINE / 2))

    async def _write(self, lease: Json, *, holder: str, duration: int, timeout: float) -> Json:  # noqa: ASYNC109
        """Replace the record if it has not changed since it was read (resourceVersion as precondition); returns the new one."""
        body = {**lease, "spec": self._spec(lease.get("spec") or {}, holder, duration)}
        path = LEASE.path(self._namespace, self._name)
        return _lease(await self._kube.request("PUT", path, body=body, timeout=timeout))

    def _spec(self, old: Json, holder: str, duration: int) -> Json:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        same = old.get("holderIdentity") == holder
        transitions = int(old.get("leaseTransitions") or 0)
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "acquireTime": old.get("acquireTime", now) if same else now,
            "renewTime": now,
            "leaseTransitions": transitions if same or not old else transitions + 1,
        }


def _lease(answer: Json) -> Json:
    """A response that is a Lease.

    A proxy in between may respond with something else, and has then neither read nor written one; and without a resourceVersion, writing would have no precondition.

    Raises:
        ApiError: it is something else.
    """
    if not (answer.get("metadata") or {}).get("resourceVersion"):
        raise ApiError(0, "NoLease", "the response to a request for the Lease is no Lease")
    return answer
