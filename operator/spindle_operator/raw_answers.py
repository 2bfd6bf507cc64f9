"""Responses of Kafka that are decoded only where their bytes differ from those of the observation before.

Most of what one observation reads is what the one before read. To decode it again, and to build the view's objects anew, takes nearly all of the
time of an observation of a large cluster. The brokers are asked each time all the same: a value is used again only for the same bytes, never
because little time has passed.
"""

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import Any, Final, TypeVar

from kafka.errors import KafkaProtocolError
from kafka.protocol.api_header import RequestHeader

# What code raises that reads a response which says something else than Kafka does, for example null where no broker says null.
MALFORMED: Final = (ValueError, LookupError, OverflowError, TypeError, AttributeError, struct.error)

_T = TypeVar("_T")


@dataclass(frozen=True)
class RawAnswer:
    """The body of a response.

    Attributes:
        kind: kafka-python's class of the response in this version.
        body: without the header.
    """

    kind: Any
    body: bytes

    @property
    def throttle_time_ms(self) -> int:
        """The first field of every response that is read like this; kafka-python's connection waits as long."""
        return int.from_bytes(self.body[:4], "big", signed=True)

    @property
    def version(self) -> int:
        """Of the response."""
        return int(self.kind._class_version)  # noqa: SLF001 - the only place where a class of the library has it

    def decode(self) -> Any:
        """kafka-python's message. Raises KafkaProtocolError."""
        try:
            return self.kind.decode(self.body)
        except MALFORMED as error:
            raise unreadable(error) from error


def unreadable(error: BaseException) -> KafkaProtocolError:
    """The error of a response that cannot be read."""
    return KafkaProtocolError(f"a response cannot be read: {type(error).__name__}: {error}")


class _Undecoded:
    """Takes the place of a response's class where kafka-python decodes a response."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def parse_header(self, buffer: Any) -> Any:
        return self._kind.parse_header(buffer)

    def decode(self, buffer: Any) -> RawAnswer:
        return RawAnswer(self._kind, buffer.read())


class _Header(RequestHeader, init=False):
    __slots__ = ()

    def get_response_class(self) -> _Undecoded:
        return _Undecoded(super().get_response_class())  # type: ignore[no-untyped-call]


@cache
def undecoded(request: Any) -> Any:
    """The request class that is encoded like this one, and whose response is a `RawAnswer`."""

    class Undecoded(request, init=False):  # type: ignore[misc, call-arg]
        header_class = _Header

    Undecoded.__name__ = request.__name__
    return Undecoded


@dataclass(frozen=True)
class _Known:
    digest: bytes
    value: Any
    aid: Any


class AnswerMemo:
    """What the responses of the last observation were read as, by question. Used by several threads: each asks its own questions."""

    def __init__(self) -> None:
        self._before: dict[Hashable, _Known] = {}
        self._now: dict[Hashable, _Known] = {}

    def turn(self) -> None:
        """An observation begins: what the last one did not ask for is forgotten."""
        self._before, self._now = self._now, {}

    def read(
        self, question: Hashable, answer: RawAnswer, read: Callable[[RawAnswer, Any], tuple[_T, Any]]
    ) -> _T:
        """The response as a value: the same object as in the last observation if the response is the same.

        Args:
            question: what was asked, and whom.
            answer: the response.
            read: makes the value. Its second argument is what it returned beside the value for the last response to the same question, None for
                the first; what it raises is raised, and nothing is remembered.
        """
        digest = sha256(answer.body).digest() + bytes([answer.version])
        known = self._before.get(question)
        if known is None or known.digest != digest:
            known = _Known(digest, *read(answer, None if known is None else known.aid))
        self._now[question] = known
        return known.value  # type: ignore[no-any-return]

    def join(self, question: Hashable, parts: Sequence[Sequence[_T]]) -> tuple[_T, ...]:
        """Values of several responses as one: the same object as in the last observation if each of them is."""
        known = self._before.get(question)
        if known is None or not _are_same(known.aid, parts):
            known = _Known(b"", tuple(chain.from_iterable(parts)), parts)
        self._now[question] = known
        return known.value  # type: ignore[no-any-return]


def _are_same(before: Sequence[object], now: Sequence[object]) -> bool:
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))
