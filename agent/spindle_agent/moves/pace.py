"""How fast a broker may copy between its dirs just now: steered inside the bounds that the operator gave."""

from collections.abc import Iterable, Mapping

from spindle.moves.rate_control import PERIOD, Pressure, RateBounds, highest, steer


class Pace:
    """One broker's rate. It begins with the upper bound, or where an agent before this one had got to."""

    def __init__(self, rate: int | None = None) -> None:
        """A pace.

        Args:
            rate: bytes per second that are on record; None for none.
        """
        self._rate = rate
        self._stepped_at: float | None = None
        self.felt = Pressure.CALM

    def next(
        self, bounds: RateBounds | None, felt: Mapping[str, Pressure], busy: Iterable[str], now: float
    ) -> int | None:
        """Bytes per second from now on; None for no throttle.

        Args:
            bounds: as they are wanted; None for no throttle.
            felt: path of a log dir → what its disk feels.
            busy: paths of the dirs that are copied from and to; without any the rate stays.
            now: seconds of the monotonic clock.
        """
        if bounds is None:
            self._rate = None
            return None
        rate = bounds.keep(bounds.most if self._rate is None else self._rate)
        touched = list(busy)
        if touched and self._stepped_at is None:
            self._stepped_at = now  # what is measured is of the time before the first copy
        elif touched and self._stepped_at is not None and now - self._stepped_at >= PERIOD:
            self._stepped_at = now
            self.felt = highest(felt.get(path, Pressure.CALM) for path in touched)
            rate = steer(rate, bounds, self.felt)
        self._rate = rate
        return rate

    def holds(self, now: float) -> None:
        """The last rate is not in force yet: its time begins when it is."""
        self._stepped_at = now

    def rests(self) -> None:
        """Nothing is copied any more: the next copies begin anew."""
        self._rate, self._stepped_at, self.felt = None, None, Pressure.CALM
