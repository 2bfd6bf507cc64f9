"""Plots as JSON: the format of kept runs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.sim.faults import Fault
from tests.sim.life import Plot
from tests.sim.variety import Topic, Variety

KEPT = Path(__file__).parent / "kept"


def render(plot: Plot, **about: Any) -> str:
    """As text; ``about`` says what the run is kept for."""
    document = {
        **about,
        "seed": plot.seed,
        "people": plot.people,
        "reasons": list(plot.reasons),
        "unaided": list(plot.unaided),
        "variety": asdict(plot.variety),
        "faults": [asdict(f) for f in plot.faults],
    }
    return json.dumps(document, indent=1) + "\n"


def parse(text: str) -> Plot:
    """Parse the text."""
    document = json.loads(text)
    variety = document["variety"]
    made = Variety(
        **{
            **variety,
            "racks": tuple(variety["racks"]),
            "skews": tuple((i, s) for i, s in variety["skews"]),
            "topics": tuple(Topic(**t) for t in variety["topics"]),
        }
    )
    faults = tuple(Fault(**{**f, "told": tuple((k, v) for k, v in f["told"])}) for f in document["faults"])
    told = {key: tuple(document.get(key, ())) for key in ("reasons", "unaided")}
    return Plot(document["seed"], made, faults, document["people"], **told)
