"""One disk's scrubbing process: reads at a set rate with the lowest I/O priority, and ends with the agent, or once it has told it that nothing is due.

If the disk hangs, only this process hangs, and it ends when the disk answers. No file is kept open between two segments.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import time
from typing import Final, NoReturn

from spindle.api.names import LOG_SUBDIR
from spindle.scrub.catalog import Segment, inactive, partition_of
from spindle.scrub.confirmation import CONFIRM_AFTER, Confirmations, SegmentPlace, SegmentProblem
from spindle.scrub.rate import Bucket, piece
from spindle.scrub.schedule import Known, Run, due, figures, forget, record, sound, unchecked, without
from spindle.scrub.segment_errors import LOG
from spindle_agent import volume
from spindle_agent.probing.messages import LARGEST, decode, encode
from spindle_agent.probing.probe import is_ours
from spindle_agent.scrub import store
from spindle_agent.scrub.messages import MOST_TOLD, Scrub, Scrubbed
from spindle_agent.scrub.reader import UNKNOWN, Reader, identify, unreadable
from spindle_agent.scrub.survey import BAD_MEDIUM, names_in, open_folder, survey

SURVEY_EVERY: Final = 600.0
_SURVEY_SOON: Final = 30.0  # pause if nothing is left to read
_SAVE_EVERY: Final = 60.0
_TELL_EVERY: Final = 10.0
_TOUCHED_EVERY: Final = 5.0  # interval of checks whether corrupt segments still exist
_IDLE: Final = 2.0
_AFTER_TROUBLE: Final = 10.0
_SET_PRIORITY: Final = {
    "x86_64": 251,
    "aarch64": 30,
}  # the system call ioprio_set, which Python does not provide
_NICE: Final = 19  # with the CPU's idle class the rate could not be kept on a busy node
_IDLE_CLASS: Final = 3 << 13
_ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


_Memory = tuple[dict[str, tuple[Run, ...]], tuple[SegmentProblem, ...], tuple[SegmentProblem, ...]]
"""What is stored on the disk."""


class OtherOrdersError(Exception):
    """The current read is no longer requested."""


def run(channel: socket.socket, order: Scrub) -> NoReturn:
    """Run the process until the other end of the channel is closed."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the agent ends the process by closing the channel
    be_modest()
    Scrubber(channel, order).run()


def be_modest() -> None:
    """Use the lowest CPU and I/O priority (the latter if the I/O scheduler supports it)."""
    os.nice(_NICE)
    number = _SET_PRIORITY.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, _IDLE_CLASS)


class Scrubber:
    """Scrubs one disk."""

    def __init__(self, channel: socket.socket, order: Scrub) -> None:
        self._channel = channel
        self._orders = 0
        self._begin(order)

    def _begin(self, order: Scrub) -> None:
        self._order = order
        self._runs: dict[str, tuple[Run, ...]] = {}
        self._doubts = Confirmations(CONFIRM_AFTER)
        self._known: list[Known] = []
        self._queue: list[Known] = []
        self._seen = 0.0
        self._recalled = False
        self._stored: _Memory | None = None
        self._surveyed = self._saved = self._told = self._touched = -SURVEY_EVERY
        self._read = self._scans = 0
        self._log_dir = -1
        self._pace_as(order)

    def _pace_as(self, order: Scrub) -> None:
        self._order = order
        self._surveyed = -SURVEY_EVERY  # the interrupted segment is to be read again
        self._bucket = Bucket(order.rate, time.monotonic())
        self._reader = Reader(piece(order.rate), self._pace)

    def run(self) -> NoReturn:
        """Read until the agent ends the process."""
        while True:
            try:
                pause = self._turn()
            except OtherOrdersError:
                continue
            except OSError:
                pause = _AFTER_TROUBLE  # the probe decides about the disk's health
            with contextlib.suppress(OtherOrdersError):
                self._wait(pause)

    def _turn(self) -> float:
        """Read one segment, or list the segments to read; returns the seconds to wait."""
        root = os.open(self._order.path, _ROOT_FLAGS)
        try:
            if not is_ours(root, self._order):
                return _AFTER_TROUBLE
            self._log_dir = volume.open_folder(root, LOG_SUBDIR)
            try:
                return self._one(root, self._log_dir)
            finally:
                os.close(self._log_dir)
        finally:
            os.close(root)

    def _one(self, root: int, log_dir: int) -> float:
        if not self._recalled:
            memory = store.read(root, self._order.directory_id)
            self._runs = dict(memory.runs)
            self._doubts.recall(memory.troubles, memory.suspects)
            self._recalled = True
            self._stored = self._memory()
        now = time.monotonic()
        self._look_after_troubles()
        if now - self._surveyed >= (SURVEY_EVERY if self._queue else _SURVEY_SOON):
            self._look_through(log_dir)
        place = next(iter(self._doubts.due(time.time())), None)
        if place is not None:
            self._scan(log_dir, place)
        elif self._queue:
            each = self._queue.pop()
            self._scan(log_dir, SegmentPlace(each.folder, each.segment.base))
        busy = bool(self._queue) or place is not None
        self._tell(changed=False)
        if now - self._saved >= _SAVE_EVERY and self._memory() != self._stored:
            self._save(root)
        if not busy and self._may_rest():
            self._tell(changed=True, resting=True)
        return 0.0 if busy else _IDLE

    def _may_rest(self) -> bool:
        """Whether a later process can continue from what is stored on the disk, and nobody waits for an answer of this one."""
        waits = self._order.first or self._doubts.troubles or self._doubts.suspects
        return self._memory() == self._stored and not waits

    def _look_through(self, log_dir: int) -> None:
        self._seen = time.time()
        self._known = list(survey(log_dir, self._hidden))
        self._surveyed = time.monotonic()
        self._runs = forget(self._runs, self._known)
        waiting = due(self._known, self._runs, time.time(), self._order.every_days)[::-1]
        self._queue = sorted(
            waiting, key=lambda each: each.folder in self._order.first
        )  # the last entry is read next

    def _hidden(self, folder: str, error: OSError, base: int = 0) -> None:
        """The disk cannot read one partition's folder but can read others: record that as an error and continue."""
        find = unreadable(error, LOG, 0, "the folder")
        if self._doubts.saw(SegmentPlace(folder, base), UNKNOWN, [find], time.time()):
            self._saved = -SURVEY_EVERY
            self._tell(changed=True)

    def _look_after_troubles(self) -> None:
        """Check whether corrupt segments were deleted or recreated, so that this is reported at once."""
        now = time.monotonic()
        if now - self._touched < _TOUCHED_EVERY:
            return
        self._touched, changed = now, False
        for trouble in self._doubts.troubles:
            try:
                folder = open_folder(self._log_dir, trouble.place.folder)
            except OSError as error:
                if error.errno not in BAD_MEDIUM:
                    raise
                continue  # still corrupt, and now unreadable
            if folder is None:
                changed |= self._doubts.gone(trouble.place)
                continue
            try:
                if self._doubts.touched(trouble.place, identify(folder, trouble.place.base)):
                    changed |= self._doubts.gone(trouble.place)
                    # New files under this name, or modified ones: read them soon.
                    runs = self._runs.get(trouble.place.folder, ())
                    self._runs[trouble.place.folder] = unchecked(runs, trouble.place.base)
            finally:
                os.close(folder)
        if changed:
            self._tell(changed=True)

    def _scan(self, log_dir: int, place: SegmentPlace) -> None:
        try:
            self._scan_in(log_dir, place)
        except OSError as error:
            if error.errno not in BAD_MEDIUM:
                raise
            self._hidden(place.folder, error, place.base)

    def _scan_in(self, log_dir: int, place: SegmentPlace) -> None:
        folder = open_folder(log_dir, place.folder)
        if folder is None:
            self._doubts.gone(place)
            return
        try:
            segments = inactive(names_in(folder))
            bases = [segment.base for segment in segments]
            if place.base not in bases:
                self._doubts.gone(place)
                return
            number = bases.index(place.base)
            before = bases[number - 1] if number else None
            self._check(folder, place, segments[number], before)
        finally:
            os.close(folder)

    def _check(self, folder: int, place: SegmentPlace, segment: Segment, before: int | None) -> None:
        found = self._reader.scan(folder, segment, before)
        if found is None:
            return  # it is checked again when it no longer changes
        self._scans += 1
        now = time.time()
        changed = self._doubts.saw(place, found.identity, found.finds, now)
        runs = self._runs.get(place.folder, ())
        if self._doubts.settled(place):
            log = found.identity[0]
            written = now if log in UNKNOWN else log[2] / 1e9
            self._runs[place.folder] = record(runs, segment, now, self._order.every_days, written)
        else:
            # An unconfirmed error must be read again, by a later process if this one ends before.
            self._runs[place.folder] = without(runs, segment)
        if changed or found.finds:
            self._saved = -SURVEY_EVERY
            self._tell(changed=True)  # also for an unconfirmed error: the partition no longer counts as sound

    # Rate and messages

    def _pace(self, size: int) -> None:
        self._read += size
        self._wait(self._bucket.take(size, time.monotonic()))
        self._look_after_troubles()
        self._tell(changed=False)

    def _wait(self, seconds: float) -> None:
        """Wait, and receive the agent's messages in the meantime."""
        until = time.monotonic() + seconds
        while True:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._channel], [], [], left)[0]:
                return
            self._take_orders()

    def _take_orders(self) -> None:
        """Receive new settings; a new rate takes effect at once, and for a new disk everything restarts."""
        data = self._channel.recv(LARGEST)
        if not data:
            os._exit(0)
        order = decode(data)
        self._orders += 1
        same = (order.path, order.directory_id) == (self._order.path, self._order.directory_id)
        if same:
            self._pace_as(order)
        else:
            self._begin(order)
        raise OtherOrdersError

    def _memory(self) -> _Memory:
        return dict(self._runs), self._doubts.troubles, self._doubts.suspects

    def _save(self, root: int) -> None:
        self._saved = time.monotonic()
        with contextlib.suppress(OSError):
            store.write(
                root, self._order.directory_id, self._runs, self._doubts.troubles, self._doubts.suspects
            )
            self._stored = self._memory()

    def _sound(self) -> list[str]:
        now, days = time.time(), self._order.every_days
        return [
            folder
            for folder in self._order.first
            if not self._doubts.about(folder)
            and sound(folder, self._known, self._seen, self._runs, now, days)
        ]

    def _tell(self, *, changed: bool, resting: bool = False) -> None:
        now = time.monotonic()
        if not changed and now - self._told < _TELL_EVERY:
            return
        self._told = now
        counted = figures(self._known, self._runs, time.time(), self._order.every_days)
        troubles = self._doubts.troubles
        report = Scrubbed(
            directory_id=self._order.directory_id,
            read=self._read,
            scans=self._scans,
            segments=counted.segments,
            bytes=counted.bytes,
            checked=counted.checked,
            oldest=counted.oldest,
            corrupt=len(troubles),
            troubles=[told for trouble in troubles[:MOST_TOLD] if (told := _told(trouble)) is not None],
            sound=self._sound(),
            direct=self._reader.direct,
            orders=self._orders,
            resting=resting,
        )
        try:
            self._channel.send(encode(report))
        except OSError:
            os._exit(0)


def _told(trouble: SegmentProblem) -> dict[str, object] | None:
    """A corrupt segment in the format of the status: the first error and the number of errors."""
    partition = partition_of(trouble.place.folder)
    if partition is None:
        return None
    first = trouble.finds[0]
    return {
        "topic": partition[0],
        "partition": partition[1],
        "segment": trouble.place.base,
        "kind": first.kind.value,
        "file": first.file,
        "position": first.position,
        "offset": first.offset,
        "message": first.message[:200],
        "finds": len(trouble.finds),
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(trouble.since)),
    }
