"""Changes of one partition by the controllers: `PartitionChangeBuilder` of Kafka 4.3.1, step by step."""

from collections.abc import Callable
from typing import Literal

from tests.sim.kafka.state import Part

Election = Literal["online", "preferred", "unclean"]
_SAME = -2  # NO_LEADER_CHANGE


def change(
    part: Part,
    *,
    elr: bool,
    min_isr: int,
    able: Callable[[int], bool],
    default_dir: Callable[[int], str | None],
    isr: list[int] | None = None,
    replicas: list[int] | None = None,
    adding: list[int] | None = None,
    removing: list[int] | None = None,
    unclean_shutdown: int | None = None,
    election: Election = "online",
    dirs: dict[int, str] | None = None,
) -> bool:
    """Change a partition.

    Args:
        elr: whether eligible leader replicas are enabled.
        min_isr: min.insync.replicas as known to the controllers.
        able: whether a broker may lead the partition now.
        default_dir: directory id of an added replica.
        isr, replicas, adding, removing: new values; None: unchanged.
        unclean_shutdown: a broker that was not shut down cleanly.
        election: kind of election.
        dirs: directory ids that brokers report.

    Returns:
        Whether anything has changed.
    """
    before = (list(part.replicas), list(part.isr), part.leader, part.epoch, list(part.elr), dict(part.dirs))
    before_moving = (list(part.adding), list(part.removing))
    made = _Change(
        part,
        list(part.isr if isr is None else isr),
        list(part.replicas if replicas is None else replicas),
        list(part.adding if adding is None else adding),
        list(part.removing if removing is None else removing),
    )
    made.complete()
    if elr:
        made.eligible(min_isr, unclean_shutdown)
    made.elect(able, election, elr=elr)
    made.write(default_dir, dirs or {}, elr=elr)
    after = (list(part.replicas), list(part.isr), part.leader, part.epoch, list(part.elr), dict(part.dirs))
    return before != after or before_moving != (part.adding, part.removing)


class _Change:
    def __init__(
        self, part: Part, isr: list[int], replicas: list[int], adding: list[int], removing: list[int]
    ) -> None:
        self.part, self.isr, self.replicas, self.adding, self.removing = part, isr, replicas, adding, removing
        self.elr = list(part.elr)
        self.leader: int | None = _SAME
        self.unclean = False

    def complete(self) -> None:
        """A reassignment completes once all added replicas are in sync, and all remaining ones if it removes more than it adds."""
        if not self.adding and not self.removing:
            return
        isr = [b for b in self.isr if b not in self.removing]
        stay = [b for b in self.replicas if b not in self.removing]
        if self.removing and (not isr or not stay):
            return
        if not set(self.adding) <= set(isr):
            return
        if len(self.adding) < len(self.removing) and not set(stay) <= set(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, stay, [], []

    def eligible(self, min_isr: int, unclean_shutdown: int | None) -> None:
        """The ELR includes replicas that leave an ISR that is too small; leaving the assignment does not remove a replica from it."""
        if len(self.isr) >= min_isr:
            self.elr = []
            return
        candidates = sorted({*self.elr, *self.part.isr})
        self.elr = [b for b in candidates if b not in self.isr and b != unclean_shutdown]

    def elect(self, able: Callable[[int], bool], election: Election, *, elr: bool) -> None:
        """Elect a leader, as far as the kind of election allows."""
        node, self.unclean = self._elected(able, election, elr=elr)
        if node == self.part.leader:
            return
        self.leader = node
        if node is not None and node in self.elr:
            self.isr = [node]
            self.elr.remove(node)

    def _elected(
        self, able: Callable[[int], bool], election: Election, *, elr: bool
    ) -> tuple[int | None, bool]:
        def valid(broker: int | None) -> bool:
            listed = broker in self.isr or (not self.isr and broker in self.elr)
            return broker is not None and listed and able(broker)

        order = [self.part.leader, *self.replicas]
        if election == "preferred":
            order = [self.replicas[0], self.part.leader, *self.replicas[1:]]
        for broker in order:
            if valid(broker):
                return broker, False
        last = self.part.last_known
        if elr and not self.elr and not self.isr and last is not None and able(last):
            return last, True
        if election == "unclean":
            return next(((b, True) for b in self.replicas if able(b)), (None, False))
        return None, False

    def write(self, default_dir: Callable[[int], str | None], dirs: dict[int, str], *, elr: bool) -> None:
        part = self.part
        if self.leader == _SAME and not set(part.replicas) <= set(self.replicas):
            self.leader = part.leader  # the epoch changes when a replica is removed
        unclean = self.leader != _SAME and self.leader is not None and self.unclean
        part.elr = [] if unclean or not elr else self.elr
        if unclean and self.leader is not None:
            part.isr = [self.leader]
        elif self.isr or elr:
            part.isr = self.isr
        if elr and self.leader is None and part.last_known is None:
            part.last_known = part.leader
        elif elr and self.leader not in (None, _SAME):
            part.last_known = None
        known = {**part.dirs, **dirs}
        part.dirs = {b: known[b] if b in known else default_dir(b) for b in self.replicas}
        part.replicas, part.adding, part.removing = self.replicas, self.adding, self.removing
        if self.leader != _SAME:
            part.leader, part.epoch = self.leader, part.epoch + 1
