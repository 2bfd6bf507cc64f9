"""Reports ask nobody for anything, and say how full each disk is in the way that suits their number."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from spindle.balance import reading
from spindle.balance.picture import Picture
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals, PlanBudget
from spindle.report import charts, page
from tests.unit.balance_samples import picture, skewed
from tests.unit.test_rebalance_report import findings
from tests.unit.test_rebalance_report import page as of_a_run

# Attributes by which a page, its styles or its pictures can make a browser ask somebody.
_ASKING = {
    "action", "archive", "background", "cite", "classid", "codebase", "data", "dynsrc", "formaction", "href", "icon", "longdesc",
    "lowsrc", "manifest", "ping", "poster", "profile", "src", "srcdoc", "srcset", "usemap", "xlink:href",
}  # fmt: skip
_ACTIVE = {
    "applet", "audio", "base", "embed", "feimage", "form", "frame", "iframe", "image", "img", "input", "link", "object", "picture",
    "script", "source", "track", "use", "video",
}  # fmt: skip


class Reader(HTMLParser):
    """Everything on a page by which something could leave it, and its policies."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.policies: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _ACTIVE:
            self.found.append(f"<{tag}>")
        self.found += [f"{tag} {name}" for name in given if name in _ASKING or name.startswith("on")]
        self.found += [f"{tag} style: {x}" for x in asked_for(given.get("style", ""))]
        if tag == "meta" and "http-equiv" in given:
            if given["http-equiv"].lower() == "content-security-policy":
                self.policies.append(given["content"])
            else:
                self.found.append(f"meta {given['http-equiv']}")  # refresh goes elsewhere
        self._style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._style:
            self.found += [f"style: {x}" for x in asked_for(data)]
            self._style = False


def asked_for(css: str) -> Iterator[str]:
    """What a browser would fetch for these styles."""
    yield from re.findall(r"url\([^)]*\)|@import[^;]*|image-set\([^)]*\)|@font-face", css)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def planned(look: Picture) -> PlacementPlan:
    snapshot = reading.read(look).snapshot
    assert snapshot is not None
    return plan(snapshot, Goals(), PlanBudget())


@pytest.mark.parametrize("with_history", [True, False])
def test_no_request_leaves_the_report_of_a_run(with_history: bool) -> None:
    reader = read(of_a_run(skewed(), findings() if with_history else None))

    assert reader.found == []
    (policy,) = reader.policies
    assert "default-src 'none'" in policy
    # Styles are the page's own; nothing else is allowed back in, and no form could be sent or base be set.
    assert set(re.findall(r"([a-z-]+-src|[a-z-]+) '", policy)) <= {
        "default-src",
        "style-src",
        "base-uri",
        "form-action",
    }


def test_nor_the_planners() -> None:
    reader = read(page.page(planned(skewed()), PlanBudget()))

    assert reader.found == []
    assert len(reader.policies) == 1


@pytest.mark.parametrize(
    "asking",
    [
        '<img src="https://example.org/x.png">', '<script>fetch("/x")</script>', '<a href="//example.org">x</a>',
        '<div style="background:url(//example.org)"></div>', "<style>@import 'x.css';</style>", '<p onclick="x()">x</p>',
        '<meta http-equiv="refresh" content="0;url=https://example.org">', '<svg><use xlink:href="x#y"/></svg>',
    ],
)  # fmt: skip
def test_what_would_ask_somebody_is_found(asking: str) -> None:
    """A reader that finds nothing anywhere would prove nothing."""
    assert read(asking).found


def test_a_few_dirs_have_a_bar_each_with_both_figures() -> None:
    found = planned(skewed())
    drawn = charts.bars(found)

    assert drawn.count('class="was"') == drawn.count('class="now"') == 6
    assert "broker 0 disk0" in drawn
    assert "/var/lib" not in drawn
    assert "72.0% → " in drawn
    widths = [float(x) for x in re.findall(r'width="([-0-9.]+)"', drawn)]
    assert min(widths) >= 0
    assert max(widths) <= charts.WIDTH


def test_many_dirs_are_cells_of_a_map(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(skewed())
    few = page.page(found, PlanBudget())
    monkeypatch.setattr(page, "_FEW", 5)
    many = page.page(found, PlanBudget())

    assert few.count("<svg") == 3
    assert many.count("<svg") == 5
    assert "A block per rack" in many
    assert "A block per rack" not in few


def test_next_to_nothing_has_bars_of_next_to_no_length() -> None:
    drawn = charts.bars(planned(picture({(0, 0): [("t", 0, 1)]})))

    assert all(0 <= float(x) <= charts.WIDTH for x in re.findall(r'\b(?:width|x)="([^"]+)"', drawn))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "1 s"), (40.0, "40 s"), (1200.0, "20 min"), (12600.0, "3.5 h")]
)
def test_durations_are_in_a_unit_that_says_something(seconds: float, words: str) -> None:
    assert page._long(seconds) == words
