"""The worker's part in storing the usage history: reads it once and appends records on request."""

import base64
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Final

from spindle_agent import volume
from spindle_agent.probing.messages import Recalled, Remember, Watch
from spindle_agent.probing.probe import is_ours
from spindle_agent.usage import store
from spindle_agent.usage.records import Sample

_MOST: Final = 300  # records that wait for a disk without space: one day


class UsageRecord:
    """Queue of records. The checking thread calls `remember`, the writing thread calls `see_to`."""

    def __init__(self) -> None:
        self._waiting: deque[Remember] = deque(maxlen=_MOST)
        self._recalled: str | None = None

    def remember(self, record: Remember) -> None:
        """Queue a record for the next write to the disk."""
        self._waiting.append(record)

    def see_to(self, watch: Watch, send: Callable[[Recalled], None]) -> None:
        """Read the stored history if that was not done yet, and write queued records; blocks until the disk answers.

        A failed write of a record is ignored: the probe checks the disk's health.
        """
        if self._recalled == watch.directory_id and not self._waiting:
            return
        with contextlib.suppress(OSError):
            root = volume.open_root(watch.path, watch.beneath)
            try:
                if is_ours(root, watch):
                    self._exchange(root, watch.directory_id, send)
            finally:
                os.close(root)

    def _exchange(self, root: int, directory_id: str, send: Callable[[Recalled], None]) -> None:
        if self._recalled != directory_id:
            for piece in store.read(root, directory_id):
                records = base64.b64encode(piece).decode()
                send(Recalled(directory_id=directory_id, records=records))
            self._recalled = directory_id
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        samples = [
            Sample(each.number, each.used, each.capacity, each.append, each.moved)
            for each in waiting
            if each.directory_id == directory_id
        ]
        if samples:
            store.write(root, directory_id, samples)
