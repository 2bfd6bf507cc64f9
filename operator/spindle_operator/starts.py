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
_MOST: Final = 16 * 2**20  # bytes of an answer


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
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        found = await asyncio.gather(*(_ask(session, address, port) for address in asked.values()))
    return {node: start for node, start in zip(asked, found, strict=True) if start is not None}


async def _ask(session: aiohttp.ClientSession, address: str, port: int) -> Start | None:
    host = f"[{address}]" if ":" in address else address
    try:
        async with session.get(f"http://{host}:{port}/metrics") as answer:
            answer.raise_for_status()
            text = await answer.content.read(_MOST)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        log.debug("%s does not report the progress of its start: %s", address, error)
        return None
    return read_start(text.decode(errors="replace"))
