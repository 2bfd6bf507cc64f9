"""Reads the progress of starting brokers from their metrics, the only endpoint that responds while logs are loaded."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from spindle.api import names
from spindle.model.start_progress import Start, read_start
from spindle.rollout.starts import unfinished

log = logging.getLogger(__name__)

_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)
# Whoever controls a broker's pod decides what it answers: only the wanted lines are kept, and an answer is neither unpacked nor redirected.
_MOST: Final = 16 * 2**20  # bytes of an answer
_LONGEST: Final = 2**16  # bytes of a line
_LINES: Final = 4096  # wanted lines of an answer: one for each log dir and thread
# In lower case: pods of earlier versions still export kafka_log_LogManager_remaining…
_WANTED: Final = (b"spindle_start", b"kafka_log_logmanager_remaining")
_PLAIN: Final = {"Accept-Encoding": "identity"}


async def look(
    brokers: Mapping[int, Mapping[str, Any]],
    pods: Mapping[int, Mapping[str, Any]],
    port: int = names.PORT_METRICS,
) -> dict[int, Start]:
    """Progress of each broker that is still starting; one that does not respond is omitted.

    Args:
        brokers: KafkaBrokers by broker id.
        pods: their pods, likewise.
        port: of the metrics.
    """
    asked = {
        node: address
        for node, broker in brokers.items()
        if (pod := pods.get(node)) is not None
        and unfinished(broker, pod)
        and (address := str((pod.get("status") or {}).get("podIP") or ""))
    }
    if not asked:
        return {}
    async with aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False, headers=_PLAIN) as session:
        found = await asyncio.gather(*(_ask(session, address, port) for address in asked.values()))
    return {node: start for node, start in zip(asked, found, strict=True) if start is not None}


async def _ask(session: aiohttp.ClientSession, address: str, port: int) -> Start | None:
    host = f"[{address}]" if ":" in address else address
    try:
        async with session.get(f"http://{host}:{port}/metrics", allow_redirects=False) as answer:
            answer.raise_for_status()
            return read_start((await _wanted(answer.content)).decode(errors="replace"))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        log.debug("%s does not report the progress of its start: %s", address, error)
        return None


async def _wanted(content: aiohttp.StreamReader) -> bytes:
    """The lines of a whole answer that tell about the start.

    Raises:
        ValueError: the answer is longer than any broker's.
    """
    kept: list[bytes] = []
    size, rest = 0, b""
    async for part in content.iter_any():
        *lines, rest = (rest + part).split(b"\n")
        kept += [line for line in lines if line[:64].lower().startswith(_WANTED)]
        size += len(part)
        if size > _MOST or len(rest) > _LONGEST or len(kept) > _LINES:
            raise ValueError("it is longer than any broker's metrics")
    return b"\n".join([*kept, rest])
