"""What a disk's process does for the record of how full the disk was: reads it once, adds to it as it is told."""

import base64
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Final

from spindle_agent.probing.messages import Recalled, Remember, Watch
from spindle_agent.probing.probe import is_ours
from spindle_agent.usage import store
from spindle_agent.usage.records import Sample

_MOST: Final = 300  # records that wait for a disk that takes none: a day's


class UsageRecord:
    """Records on their way. `remember` is called by the thread that looks, `see_to` by the one that writes."""

    def __init__(self) -> None:
        self._waiting: deque[Remember] = deque(maxlen=_MOST)
        self._recalled: str | None = None

    def remember(self, record: Remember) -> None:
        """Keep this, when the disk can next be written to."""
        self._waiting.append(record)

    def see_to(self, watch: Watch, send: Callable[[Recalled], None]) -> None:
        """Read what is kept, if that was not done yet, and write what waits; blocks for as long as the disk likes.

        A record that cannot be written is no trouble: the disk's health is the probe's business.
        """
        if self._recalled == watch.directory_id and not self._waiting:
            return
        with contextlib.suppress(OSError):
            root = os.open(watch.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
