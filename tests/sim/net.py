"""Communication between processes: links that may be cut, and requests that may be late, rejected, or executed without an answer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tests.sim.api import NAMESPACE, SYSTEM, Api, Refused, Request, parse
from tests.sim.kafka.state import KafkaFault
from tests.sim.kernel import Kernel
from tests.sim.loop import Fiber, Process

if TYPE_CHECKING:
    import asyncio

Mishap = Literal["", "lost", "unanswered", "late", "refused"]


@dataclass
class Net:
    """Links and disturbances.

    Attributes:
        cuts: pairs of names that cannot connect to each other. ``api`` is the API server, ``kafka`` all brokers, an operator has its own name, a
            node
            its name.
        mishaps: share of requests, by kind of disturbance.
        api_mishaps, kafka_mishaps: share of requests to each of the two that are disturbed now.
    """

    kernel: Kernel
    api: Api
    cuts: set[frozenset[str]] = field(default_factory=set)
    api_mishaps: float = 0.0
    kafka_mishaps: float = 0.0
    requests: int = 0
    refused: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # verb and resource → status of every answer

    def linked(self, one: str, other: str) -> bool:
        """Whether two can connect to each other."""
        return one == other or frozenset((one, other)) not in self.cuts

    def mishap(self, rate: float) -> Mishap:
        """The disturbance of a request."""
        if not rate or self.kernel.rng.random() >= rate:
            return ""
        return self.kernel.rng.choice(("lost", "unanswered", "late", "refused"))

    def ask_api(self, process: Process, request: Request, limit: float, where: str) -> "asyncio.Future[Any]":
        """One request to the API server; the future gets its answer, or `Refused` (status 0: none came)."""
        self.requests += 1
        future: asyncio.Future[Any] = process.create_future()
        rng = self.kernel.rng
        mishap = self.mishap(self.api_mishaps)
        silent = Refused(0, "TimeoutError", "no answer from the API server")

        answer = partial(process.answer, future)

        def perform() -> None:
            if self.api.away or not self.linked(where, "api"):
                quick = self.api.away and rng.random() < 0.7
                self.kernel.call_later(0.01 if quick else limit, lambda: answer(None, silent))
                return
            if mishap == "lost":
                self.kernel.call_later(limit, lambda: answer(None, silent))
                return
            what = asked(request)
            if what in self.refused:
                answer(None, refusal(self.refused[what], what, request.who))
                return
            if mishap == "refused":
                answer(None, refusal(rng.choice(REFUSALS[what[0]]), what, request.who))
                return
            value, error = None, None
            try:
                value = self.api.handle(request)
            except Refused as refused:
                error = refused
            if mishap == "unanswered":
                self.kernel.call_later(limit, lambda: answer(None, silent))
            elif mishap == "late":
                self.kernel.call_later(limit * 0.9 * rng.random(), lambda: answer(value, error))
            else:
                answer(value, error)

        self.kernel.call_later(0.002 + 0.02 * rng.random(), perform)
        return future

    def ask_kafka(self, where: str, node: str, limit: float, perform: Callable[[], Any]) -> Any:
        """One blocking request to a broker, called in a fiber.

        Raises:
            TimeoutError: no answer came.
        """
        fiber, rng = Fiber.running, self.kernel.rng
        assert fiber is not None
        self.requests += 1
        fiber.sleep(0.001 + 0.01 * rng.random())
        mishap = self.mishap(self.kafka_mishaps)
        if mishap == "lost" or not self.linked(where, node) or not self.linked(where, "kafka"):
            fiber.sleep(limit)
            raise TimeoutError
        if mishap == "refused":
            raise KafkaFault(*rng.choice(_KAFKA_REFUSALS))
        value = perform()
        if mishap == "unanswered":
            fiber.sleep(limit)
            raise TimeoutError
        if mishap == "late":
            fiber.sleep(limit * 0.9 * rng.random())
        return value


_KAFKA_REFUSALS = (
    (7, "REQUEST_TIMED_OUT"),
    (8, "BROKER_NOT_AVAILABLE"),
    (29, "TOPIC_AUTHORIZATION_FAILED"),
    (31, "CLUSTER_AUTHORIZATION_FAILED"),
    (41, "NOT_CONTROLLER"),
)
# Error responses of the API server to valid requests, for each verb: missing rights or quotas, errors of the server itself, of a webhook or of
# etcd; time-outs; no server behind the load balancer.
_ANY = (403, 429, 500, 503, 504)
REFUSALS: dict[str, tuple[int, ...]] = {
    "get": _ANY,
    "list": _ANY,
    "create": (*_ANY, 409),
    "apply": (*_ANY, 409),
    "patch": (*_ANY, 409),
    "update": (*_ANY, 409),
    "delete": (*_ANY, 409),
    "evict": _ANY,
}
_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def asked(request: Request) -> tuple[str, str]:
    """Verb and resource of a request."""
    kind, _, name, sub = parse(request.path)
    resource = kind.plural if kind is not None else ""
    if request.method == "GET":
        return "list" if name is None else "get", resource
    if sub == "eviction":
        return "evict", resource
    if "apply" in request.content_type:
        return "apply", resource
    return _VERBS[request.method], resource


def refusal(status: int, what: tuple[str, str], who: str) -> Refused:
    """A response in the wording of the API server."""
    verb, resource = what
    text = {
        403: f'{resource} is forbidden: User "system:serviceaccount:{SYSTEM}:{who}" cannot {verb} resource "{resource}" in the namespace "{NAMESPACE}"',
        409: f"Operation cannot be fulfilled on {resource}: the object has been modified; please apply your changes to the latest version and try again",
        429: "The server has received too many requests and has asked us to try again later",
        500: "Internal error occurred: etcdserver: leader changed",
        503: "the server is currently unable to handle the request",
        504: "Timeout: request did not complete within the allotted timeout",
    }[status]
    return Refused(status, _REASONS[status], text)
