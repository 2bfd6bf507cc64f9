"""Polls one broker's log dirs, and runs its moves and samples."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from spindle.api.enums import Pressure
from spindle_agent.backoff import Backoff
from spindle_agent.broker.client import KafkaClient, LogDir
from spindle_agent.broker.connection import Access, BrokerConnection, BrokerError
from spindle_agent.broker.credentials import Credentials
from spindle_agent.moves.mover import Mover, read_orders
from spindle_agent.options import Options
from spindle_agent.samples.sampler import Sampler
from spindle_shared.api_answers import ApiError

log = logging.getLogger(__name__)

Name = tuple[str, str]

EVERY: Final = 10.0
_WHILE_MOVING: Final = (0.5, 5.0)  # minimum and maximum; in between it depends on the cost of a response
_COST: Final = 20.0  # times the duration of a response: a broker spends at most a twentieth of its time on the agent's requests
_FRESH: Final = 30.0  # seconds for which a response about a log dir is valid
_TIMEOUT: Final = 5.0


class BrokerSession:
    """One broker of this node."""

    def __init__(
        self,
        name: Name,
        options: Options,
        credentials: Credentials,
        mover: Mover,
        changed: Callable[[], None],
        felt: Callable[[], Mapping[str, Pressure]] = dict,
        sampler: Sampler | None = None,
    ) -> None:
        """Create the session of one broker.

        Args:
            name: namespace and name of the KafkaBroker.
            options: addresses of brokers.
            credentials: certificates for brokers.
            mover: moves the broker's replicas between its dirs.
            changed: called when the broker reported something new.
            felt: path of a log dir → current I/O pressure of its disk; disks that cannot be inspected are left out.
            sampler: takes samples of the broker; None for no samples.
        """
        self._name = name
        self._options = options
        self._credentials = credentials
        self._changed = changed
        self._felt = felt
        self._spec: Mapping[str, Any] = {}
        self._link: KafkaClient | None = None
        self._wake = asyncio.Event()
        self._dirs: tuple[LogDir, ...] = ()
        self._asked_at: float | None = None
        self._problem = ""
        self.mover = mover
        self.sampler = sampler

    def wants(self, spec: Mapping[str, Any]) -> None:
        """Take over the KafkaBroker's current spec."""
        keys = ("moves", "throttleBytesPerSecond", "throttleBytesPerSecondMin", "cluster", "id")
        news = [key for key in keys if spec.get(key) != self._spec.get(key)]
        self._spec = spec
        self.mover.wants(read_orders(spec))
        if self.sampler is not None:
            self.sampler.wants(spec)
        if news:
            self._wake.set()

    def error_of(self, log_dir: str, now: float) -> int | None:
        """The broker's error code for a log dir, 0 if it is healthy; None if there is no recent response."""
        if self._asked_at is None or now - self._asked_at > _FRESH:
            return None
        return next((each.error for each in self._dirs if each.path == log_dir), None)

    def log_dir(self, path: str) -> LogDir | None:
        """A log dir from the broker's last response; None if it is not in it."""
        return next((each for each in self._dirs if each.path == path), None)

    def answered(self, now: float) -> bool:
        """Whether the broker answered recently."""
        return self._asked_at is not None and now - self._asked_at <= _FRESH

    async def run(self) -> None:
        """Poll until cancelled."""
        backoff = Backoff(first=1.0, longest=EVERY)
        try:
            while True:
                self._wake.clear()
                pause = await self._round(backoff)
                try:
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                except TimeoutError:
                    continue
        finally:
            if self._link is not None:
                self._link.close()

    async def _round(self, backoff: Backoff) -> float:
        """Poll once; returns the seconds until the next poll."""
        try:
            link = await self._connected()
            began = time.monotonic()
            self._dirs = await link.log_dirs()
            self._asked_at = time.monotonic()
            took = self._asked_at - began
            self._changed()
            await self.mover.step(link, self._dirs, self._felt(), self._changed)
            if self.sampler is not None:
                await self.sampler.step(link, self._dirs)
        except (BrokerError, ApiError, LookupError) as error:
            if isinstance(error, BrokerError):
                self.doubt()
            self._note(str(error))
            return backoff.failed()
        except Exception as error:  # a false broker can send anything; it must not end the agent, which serves all brokers of the node
            if not self._problem:
                log.exception("%s/%s: the broker's response cannot be processed", *self._name)
            self._note(f"its response cannot be processed: {type(error).__name__}: {error}")
            if self._link is not None:
                self._link.close()
            return backoff.failed()
        self._note("")
        backoff.worked()
        least, most = _WHILE_MOVING
        return min(most, max(least, _COST * took)) if self.mover.busy else EVERY

    async def access(self) -> Access:
        """The broker's address and the credentials for it.

        Raises:
            ApiError: the certificate was never read and cannot be read now.
            LookupError: there is no certificate yet.
        """
        namespace, cluster = self._name[0], str(self._spec["cluster"])
        host = self._options.host_of(namespace, cluster, int(self._spec["id"]))
        return Access(host, self._options.broker_port, *await self._credentials.of(namespace, cluster))

    def doubt(self) -> None:
        """Reread the certificate, because it may be the cause of a failure."""
        self._credentials.doubt(self._name[0], str(self._spec.get("cluster")))

    async def _connected(self) -> KafkaClient:
        access = await self.access()
        if self._link is None or self._link.wire.access != access:
            if self._link is not None:
                self._link.close()
            self._link = KafkaClient(BrokerConnection(access, _TIMEOUT), int(self._spec["id"]))
        return self._link

    def _note(self, problem: str) -> None:
        """Log a problem when it changes, because a broker that is down fails the same way many times."""
        if problem and problem != self._problem:
            log.info("%s/%s: the broker cannot be reached: %s", *self._name, problem)
        elif self._problem and not problem:
            log.info("%s/%s: the broker answers", *self._name)
        self._problem = problem
