"""The present state of the map, and what each open page has not seen of it yet. Watches write it, pages read it; a lock is between them."""

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from spindle.api import names
from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster
from spindle.api.rebalance import KafkaRebalance
from spindle.moves.journal import Journal, JournalError, parse
from spindle_cli.disk_map import model
from spindle_cli.disk_map.model import Json
from spindle_cli.disk_map.watching import BROKERS, CLUSTERS, JOURNAL, REBALANCES
from spindle_cli.kube import KubeError, parsed

_HEAD: Final = "head"
_MOVES: Final = "moves"
_PROPOSALS: Final = "proposals"
_TROUBLE: Final = "trouble"
_MOST_MOVES: Final = 500  # in the list of the page


class Page:
    """One open page.

    Attributes:
        wake: called, from any thread, when there is something that the page has not seen.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        self.full = True
        self.sections: set[str] = set()
        self.brokers: set[str] = set()
        self.trouble = "[]"  # what was sent before there was anything else


class Board:
    """The state of one cluster's map."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._pages: set[Page] = set()
        self._listed: set[str] = set()
        self._head: Json | None = None
        self._cards: dict[str, str] = {}  # JSON by the broker's name
        self._within: dict[str, list[Json]] = {}  # moves between its own disks, by the broker's name
        self._between: list[Json] = []
        self._places: dict[model.CopyId, model.Place] = {}
        self._rates: dict[model.CopyId, int] = {}
        self._proposals: dict[str, Json] = {}
        self._trouble: dict[str, str] = {}  # by the kind, or kind/name of one object

    # What watches write. -----------------------------------------------------------------------------

    def replace(self, kind: str, found: Iterable[Json]) -> None:
        """See `watching.Sink`."""
        there = set()
        for each in found:
            there.add(str(each["metadata"]["name"]))
            self.change(kind, each, deleted=False)
        with self._lock:
            self._listed.add(kind)
            for name in self._known(kind) - there:
                self._remove(kind, name)
            unread = {each for each in self._trouble if each.startswith(_one(kind, ""))}
            for key in unread - {_one(kind, name) for name in there}:
                del self._trouble[key]
            self._tell(_TROUBLE)

    def change(self, kind: str, obj: Json, *, deleted: bool) -> None:
        """See `watching.Sink`."""
        if not self._is_ours(kind, obj):
            return
        name = str(obj["metadata"]["name"])
        problem = None
        if deleted:
            with self._lock:
                self._remove(kind, name)
        else:
            try:
                self._put(kind, obj)
            except (KubeError, ValueError) as error:
                # One object of another version must not stop the others.
                problem = f"{kind} {name} cannot be read, and is shown as it was before: {error}"
        self.trouble(_one(kind, name), problem)

    def _put(self, kind: str, obj: Json) -> None:
        if kind == BROKERS:
            self._put_broker(parsed(KafkaBroker, obj))
        elif kind == CLUSTERS:
            self._put_head(model.cluster_head(parsed(KafkaCluster, obj)))
        elif kind == REBALANCES:
            self._put_proposal(model.proposal(parsed(KafkaRebalance, obj)))
        else:
            self._put_journal((obj.get("data") or {}).get("journal"))

    def trouble(self, kind: str, message: str | None) -> None:
        """See `watching.Sink`."""
        with self._lock:
            if self._trouble.get(kind) != message:
                self._trouble.pop(kind, None)
                if message:
                    self._trouble[kind] = message
                self._tell(_TROUBLE)

    # What pages read. --------------------------------------------------------------------------------

    def open(self, wake: Callable[[], object]) -> Page:
        """A new page, which has seen nothing yet."""
        page = Page(wake)
        with self._lock:
            self._pages.add(page)
        return page

    def close(self, page: Page) -> None:
        """The page is gone."""
        with self._lock:
            self._pages.discard(page)

    def news(self, page: Page) -> str | None:
        """What the page has not seen, as JSON; None if there is nothing, or if the brokers were not listed yet."""
        with self._lock:
            full = page.full and {CLUSTERS, BROKERS} <= self._listed
            if page.full and not full:
                return self._only_trouble(page)
            sections = {_HEAD, _MOVES, _PROPOSALS, _TROUBLE} if full else page.sections
            brokers = set(self._cards) if full else page.brokers
            if not (sections or brokers or full):
                return None
            parts = {"full": json.dumps(full), **{each: self._section(each) for each in sections}}
            parts["cards"] = f"[{','.join(self._cards[name] for name in brokers if name in self._cards)}]"
            parts["gone"] = json.dumps([name for name in brokers if name not in self._cards])
            page.full, page.sections, page.brokers = False, set(), set()
        return _joined(parts)

    def _only_trouble(self, page: Page) -> str | None:
        """Why nothing can be shown yet, once per change; called with the lock."""
        trouble = self._section(_TROUBLE)
        if trouble == page.trouble:
            return None
        page.trouble = trouble
        # The head too, if it is known: it says what the cluster waits for.
        head = {_HEAD: self._section(_HEAD)} if CLUSTERS in self._listed else {}
        return _joined({"full": "false", _TROUBLE: trouble, **head, "cards": "[]", "gone": "[]"})

    def _section(self, name: str) -> str:
        if name == _HEAD:
            return _json(self._head)
        if name == _PROPOSALS:
            return _json(model.shown_proposals(self._proposals.values()))
        if name == _TROUBLE:
            return _json(sorted(self._trouble.values()))
        moves = [each for found in self._within.values() for each in found] + self._between
        running = sorted(moves, key=lambda each: (each["state"] != "Copying", each["eta"] or "~"))
        return _json({"total": len(moves), "shown": running[:_MOST_MOVES]})

    # The rest. ---------------------------------------------------------------------------------------

    def _is_ours(self, kind: str, obj: Json) -> bool:
        return kind in (CLUSTERS, JOURNAL) or obj.get("spec", {}).get("cluster") == self._cluster

    def _known(self, kind: str) -> set[str]:
        if kind == CLUSTERS:
            return {self._cluster} if self._head else set()
        if kind == JOURNAL:
            return {names.moves_map(self._cluster)} if self._between else set()
        return set(self._cards if kind == BROKERS else self._proposals)

    def _remove(self, kind: str, name: str) -> None:
        """Called with the lock."""
        if kind == BROKERS:
            self._cards.pop(name, None)
            self._tell(broker=name)
            if self._within.pop(name, None):
                self._tell(_MOVES)
        elif kind == CLUSTERS:
            self._head = None
            self._tell(_HEAD)
        elif kind == REBALANCES:
            self._proposals.pop(name, None)
            self._tell(_PROPOSALS)
        else:
            self._between, self._places, self._rates = [], {}, {}
            self._tell(_MOVES)

    def _put_broker(self, broker: KafkaBroker) -> None:
        name = broker.metadata.name
        card, moves = _json(model.broker_card(broker)), model.moves_within(broker)
        with self._lock:
            if self._cards.get(name) != card:
                self._cards[name] = card
                self._tell(broker=name)
            if self._within.get(name, []) != moves:
                self._within[name] = moves
                self._tell(_MOVES)

    def _put_head(self, head: Json) -> None:
        with self._lock:
            if self._head != head:
                self._head = head
                self._tell(_HEAD)

    def _put_proposal(self, proposal: Json) -> None:
        with self._lock:
            if self._proposals.get(proposal["name"]) != proposal:
                self._proposals[proposal["name"]] = proposal
                self._tell(_PROPOSALS)

    def _put_journal(self, text: str | None) -> None:
        try:
            journal = parse(text)
        except JournalError as error:
            self.trouble(JOURNAL, f"the journal of moves cannot be read: {error}")
            journal = Journal()
        else:
            self.trouble(JOURNAL, None)
        with self._lock:
            self._rates = model.copy_rates(self._places, journal, self._rates)
            self._places = model.places(journal)
            between = model.moves_between(journal, self._rates)
            if self._between != between:
                self._between = between
                self._tell(_MOVES)

    def _tell(self, section: str | None = None, *, broker: str | None = None) -> None:
        """Called with the lock."""
        for page in self._pages:
            page.sections.update([section] if section else ())
            page.brokers.update([broker] if broker else ())
            page.wake()


def _joined(parts: dict[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"


def _one(kind: str, name: str) -> str:
    """The key of the trouble with one object; with an empty name the prefix of all of a kind."""
    return f"{kind}/{name}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
