"""Error responses of the API server: an operator gets the same ones from the simulated server and over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import stamina
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from spindle_operator.kinds import KAFKA_BROKER, POD
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError
from tests.sim.api import NAMESPACE, Api
from tests.sim.kernel import Kernel
from tests.sim.loop import Process, simulated_time
from tests.sim.net import REFUSALS, Net, refusal
from tests.sim.operators import SimKube
from tests.sim.rules_more import open_doors

_BROKER = {
    "apiVersion": "spindle.dev/v1alpha1",
    "kind": "KafkaBroker",
    "metadata": {"name": "b", "namespace": NAMESPACE},
}
_ASK: dict[str, tuple[str, Callable[[Kube], Awaitable[Any]]]] = {
    "list": ("pods", lambda kube: kube.items(POD, NAMESPACE)),
    "get": ("pods", lambda kube: kube.get(POD, NAMESPACE, "p")),
    "create": ("kafkabrokers", lambda kube: kube.create(_BROKER, NAMESPACE)),
    "apply": ("kafkabrokers", lambda kube: kube.apply(_BROKER, NAMESPACE)),
    "patch": ("kafkabrokers", lambda kube: kube.patch(KAFKA_BROKER, NAMESPACE, "b", {"spec": {}})),
    "delete": ("pods", lambda kube: kube.delete(POD, NAMESPACE, "p", "uid")),
    "evict": ("pods", lambda kube: kube.evict(NAMESPACE, "p", "uid", "1")),
}
_CASES = [(verb, status) for verb in _ASK for status in REFUSALS[verb]]


@pytest.fixture(autouse=True)
def _without_pauses() -> Iterator[None]:
    """Requests that would be retried are sent once."""
    stamina.set_testing(True, attempts=1)
    yield
    stamina.set_testing(False)


def _seen(error: ApiError) -> tuple[Any, ...]:
    return error.status, error.reason, error.message, error.gone, error.conflict, error.forbidden


async def _by_http(verb: str, status: int) -> tuple[Any, ...]:
    resource, ask = _ASK[verb]
    answer = refusal(status, (verb, resource), "spindle-operator")

    async def refuse(_: web.Request) -> web.Response:
        body = {
            "kind": "Status",
            "status": "Failure",
            "reason": answer.reason,
            "message": answer.message,
            "code": status,
        }
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    kube = Kube(configuration)
    try:
        with pytest.raises(ApiError) as raised:
            await ask(kube)
        return _seen(raised.value)
    finally:
        await kube.close()
        await runner.cleanup()


def _simulated(verb: str, status: int) -> tuple[Any, ...]:
    resource, ask = _ASK[verb]
    kernel = Kernel(1)
    net = Net(kernel, Api(kernel))
    net.refused[verb, resource] = status
    seen: list[tuple[Any, ...]] = []
    with simulated_time(kernel):
        process = Process(kernel, "op")

        async def main() -> None:
            try:
                await ask(SimKube(process, net))
            except ApiError as error:
                seen.append(_seen(error))

        process.start(main())
        kernel.run_until(kernel.now + 60.0)
    return seen[0]


@pytest.mark.parametrize(("verb", "status"), _CASES, ids=[f"{verb} {status}" for verb, status in _CASES])
def test_an_operator_sees_a_refusal_as_that_of_a_real_server(verb: str, status: int) -> None:
    assert _simulated(verb, status) == asyncio.run(_by_http(verb, status))


_CLOSED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": "User:spindle-node;User:spindle-operator",
    "listener.security.protocol.map": "CONTROLLER:SSL,CLIENT:SSL",
    "listeners": "CLIENT://:9092",
    "ssl.client.auth": "required",
}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ssl.client.auth", "required", []),
        ("authorizer.class.name", "", ["no authorizer"]),
        ("allow.everyone.if.no.acl.found", "true", ["allow.everyone.if.no.acl.found"]),
        ("super.users", "User:spindle-node;User:mallory", ["super user User:mallory"]),
        ("listener.security.protocol.map", "CLIENT:PLAINTEXT", ["listener CLIENT is not encrypted"]),
        ("ssl.client.auth", "requested", ["listener CLIENT asks for no certificate"]),
        ("listener.name.client.ssl.client.auth", "none", ["listener CLIENT asks for no certificate"]),
    ],
)  # fmt: skip
def test_the_judge_sees_open_doors(key: str, value: str, said: list[str]) -> None:
    assert open_doors({**_CLOSED, key: value}) == said
