"""The rate at which a broker may copy between its dirs, controlled within the operator's bounds."""

from collections.abc import Iterable, Mapping

from spindle.api.enums import Pressure
from spindle.moves.rate_control import PERIOD, RateBounds, highest, steer


class Pace:
    """One broker's rate. It starts at the upper bound, or at the rate that a previous agent had reached."""

    def __init__(self, rate: int | None = None) -> None:
        """Create the rate control.

        Args:
            rate: recorded bytes per second; None for none.
        """
        self._rate = rate
        self._stepped_at: float | None = None
        self.felt = Pressure.CALM

    def next(
        self, bounds: RateBounds | None, felt: Mapping[str, Pressure], busy: Iterable[str], now: float
    ) -> int | None:
        """Bytes per second from now on; None for no throttle.

        Args:
            bounds: minimum and maximum; None for no throttle.
            felt: path of a log dir → I/O pressure of its disk.
            busy: paths of the dirs that are copied from or to; without any the rate is unchanged.
            now: seconds of the monotonic clock.
        """
        if bounds is None:
            self._rate = None
            return None
        rate = bounds.keep(bounds.most if self._rate is None else self._rate)
        touched = list(busy)
        if touched and self._stepped_at is None:
            self._stepped_at = now  # the measurement is from the time before the first copy
        elif touched and self._stepped_at is not None and now - self._stepped_at >= PERIOD:
            self._stepped_at = now
            self.felt = highest(felt.get(path, Pressure.CALM) for path in touched)
            rate = steer(rate, bounds, self.felt)
        self._rate = rate
        return rate

    def holds(self, now: float) -> None:
        """The last rate is not in effect yet; its interval starts when it is."""
        self._stepped_at = now

    def rests(self) -> None:
        """Nothing is copied any more; the next copies start again at the upper bound."""
        self._rate, self._stepped_at, self.felt = None, None, Pressure.CALM
