"""The Lease that shows the operator that this agent is alive, and what the agent's public key is."""

import asyncio
import logging
import os
import socket
import time
from datetime import UTC, datetime
from typing import Final

from spindle.api import names
from spindle_agent.backoff import Backoff
from spindle_agent.kube import Kube
from spindle_shared.api_answers import ApiError

log = logging.getLogger(__name__)

EVERY: Final = 10.0
DURATION: Final = 30  # seconds without renewal after which the agent counts as silent


class Heartbeat:
    """Renews one Lease."""

    def __init__(self, kube: Kube, namespace: str, node: str, request: bytes) -> None:
        self._kube = kube
        self._annotations = {
            names.ANN_REQUEST: request.decode("ascii"),
            names.ANN_PARTS: str(len(names.AGENT_PARTS)),
        }
        self._namespace = namespace
        self._name = names.agent_lease(node)
        self._identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}"
        self._renewed_at: float | None = None

    def age(self, now: float) -> float | None:
        """Seconds of the monotonic clock since the last renewal; None before the first."""
        return None if self._renewed_at is None else now - self._renewed_at

    async def run(self) -> None:
        """Renew until cancelled; more often while the API server is unreachable."""
        backoff = Backoff(first=1.0, longest=EVERY / 2)
        while True:
            try:
                await self._renew()
            except ApiError as error:
                pause = backoff.failed()
                log.warning(
                    "renewing the Lease %s failed (next attempt in %.1f s): %s", self._name, pause, error
                )
                await asyncio.sleep(pause)
            else:
                backoff.worked()
                await asyncio.sleep(EVERY)

    async def _renew(self) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION, "renewTime": now}
        await self._kube.apply_lease(self._namespace, self._name, spec, self._annotations)
        self._renewed_at = time.monotonic()
