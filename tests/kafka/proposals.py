"""What stands around a keeper of a real broker: the spec, the status, the credentials, an operator, and questions of one's own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

from spindle.api import names
from spindle.moves import between_dirs
from spindle.moves.intents import ConfigureIntent
from spindle.moves.journal import Journal
from spindle.moves.limits import Limits
from spindle_agent.broker.client import KafkaClient
from spindle_agent.broker.connection import Access, BrokerConnection
from spindle_agent.broker.session import BrokerSession
from spindle_agent.moves.mover import Mover
from spindle_agent.options import parse
from spindle_operator import kafka_commands
from spindle_operator.kafka_client import KafkaClient as OperatorLink
from tests.kafka.cluster import Cluster
from tests.model.moving import execute

NAME = ("test", "demo-broker-0")


class Secrets:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def of(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        authority, certificate, key = (
            (self.folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")
        )
        return authority, certificate, key

    def doubt(self, namespace: str, cluster: str) -> None:
        pass


class Proposals:
    """What stands around a keeper: the spec, and the status, which is written as soon as it is offered."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.status: dict[str, Any] = {}
        self.spec: dict[str, Any] = {"cluster": "demo", "id": 0, "moves": []}
        self.most_at_once = 0
        self.felt: dict[str, Any] = {}
        self.journal = Journal()

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[BrokerSession]:
        """An agent's life; at its end it is gone without a word."""
        secrets = cast("Any", Secrets(self.cluster.base / "agent"))
        options = parse([f"--broker-host={self.cluster.brokers[0].address}"])
        mover = Mover("demo", self.status)
        session = BrokerSession(NAME, options, secrets, mover, lambda: self.told(mover), lambda: self.felt)
        session.wants(self.spec)
        tasks = [asyncio.create_task(session.run()), asyncio.create_task(self._operate(session))]
        try:
            yield session
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _operate(self, session: BrokerSession) -> None:
        """The operator's part: it sets the throttle that the agent wants, and puts it back."""
        link = self.cluster.link()
        try:
            while True:
                await asyncio.to_thread(self._pass, link, session.mover.fields())
                await asyncio.sleep(0.2)
        finally:
            link.close()

    def _pass(self, link: OperatorLink, observed: dict[str, Any]) -> None:
        brokers = {0: {"spec": self.spec, "status": {"observed": observed}}}
        view = link.look(ask_rights=False)[0]
        self.journal = between_dirs.taken_over(self.journal, view, brokers.items())
        rates = between_dirs.rates(brokers)
        outcome = execute(view, self.journal, (), Limits(), settings=rates)
        self.journal = outcome.journal
        for intent in outcome.actions:
            assert isinstance(intent, ConfigureIntent)
            kafka_commands.set_configs(link, "broker", intent.name, intent.values)

    def told(self, mover: Mover) -> None:
        self.status = mover.fields()
        copying = [move for move in self.status["moves"] if move["state"] == "Copying"]
        self.most_at_once = max(self.most_at_once, len(copying))

    def states(self) -> list[str]:
        return [move["state"] for move in self.status.get("moves", ())]

    @contextlib.asynccontextmanager
    async def link(self) -> AsyncIterator[KafkaClient]:
        secrets = await Secrets(self.cluster.base / "agent").of("", "")
        access = Access(self.cluster.brokers[0].address, names.PORT_REPLICATION, *secrets)
        link = KafkaClient(BrokerConnection(access, 20), 0)
        try:
            yield link
        finally:
            link.close()

    async def throttle(self) -> str | None:
        async with self.link() as link:
            return await link.throttle(await link.log_dirs())

    async def until_throttled(self, value: str | None) -> None:
        async def ask() -> bool:
            return await self.throttle() == value

        await until(f"the throttle is {value}", ask)

    async def dirs(self) -> dict[tuple[str, int], str]:
        async with self.link() as link:
            return {replica: each.path for each in await link.log_dirs() for replica in each.replicas}

    async def copies(self) -> dict[tuple[str, int], str]:
        async with self.link() as link:
            return {replica: each.path for each in await link.log_dirs() for replica in each.copies}


async def until(what: str, question: Callable[[], Any], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while True:
            answer = question()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            await asyncio.sleep(0.2)
    raise AssertionError(what)
