"""kubectl reads as text what is text: names and values that look like numbers or booleans in one of YAML's versions."""

import itertools
import json

import pytest

from e2e.cluster.apiserver import ApiServer
from spindle_cli.kubectl_yaml import document

pytestmark = pytest.mark.kube

NUMBERS = (
    "1e3",
    "1.5e3",
    "1E-3",
    "0o7",
    "0O7",
    "08",
    "0b1",
    "0x1f",
    "1_000",
    "0_8",
    "1_0e3",
    ".5",
    "1.",
    "y",
    "Y",
    "n",
    "N",
    "yes",
    "No",
    "on",
    "Off",
)
OTHERS = (
    "true",
    "null",
    "~",
    "",
    "=",
    "<<",
    ".inf",
    "-.INF",
    ".NaN",
    "2026-11-28",
    "12:30:45",
    "1:2",
    "+1",
    "-0",
    "0",
    "- a",
    "a: b",
    "#",
    "é",
    "a\nb",
)


def test_kubectl_reads_what_is_text_as_text(api_server: ApiServer) -> None:
    short = map(
        "".join, itertools.chain.from_iterable(itertools.product("01e_.x-8", repeat=n) for n in (1, 2, 3, 4))
    )
    data = {f"k{n}": word for n, word in enumerate((*NUMBERS, *OTHERS, *short))}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "1e3"}, "data": data}
    read = api_server.kubectl(
        "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", stdin=document(made)
    )
    assert json.loads(read)["metadata"]["name"] == "1e3"
    assert json.loads(read)["data"] == data
