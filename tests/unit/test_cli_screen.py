"""What others wrote comes to the terminal without anything that steers it, through every command that prints text."""

import io
import json
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner, Result

from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster
from spindle.api.printable import REPLACEMENT, printable, printables
from spindle.api.rebalance import KafkaRebalance
from spindle_cli import disk_bars, following, helper_pod, main, screen, status_commands, terminal, topics
from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import ENV_CREDENTIALS, DirView, PartitionView, TopicView
from spindle_cli.kube import ClusterView, Kube, KubeError
from tests.unit import cli_samples as samples
from tests.unit.proposal_samples import D0, D1, move, rebalance

RUNNER = CliRunner()

# Of the screen, its colours, the clipboard (OSC 52), a link (OSC 8), a title; C1; the line's begin; direction; no width; separators.
NASTY = (
    "\x1b[2J\x1b[31m",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\x1b]8;;https://elsewhere\x1b\\here\x1b]8;;\x1b\\",
    "\x9b31m",
    "\x9d0;title\x9c",
    "all is well\rAll 3",
    "\x7f\x08\x08",
    "\u202egnp.exe\u202c",
    "\u2066x\u2069\u200f",
    "\u200b\ufeff",
    "\u2028\u2029",
    "\ud800",
)
ALL = "".join(NASTY)
STEERS = {c for text in NASTY for c in text if not c.isprintable()}


def shown(done: Result) -> str:
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    text = done.output
    assert not {c for c in text if not c.isprintable()} - {"\n"}, text
    return text


@given(st.text())
def test_what_is_printable_stays_and_all_else_goes(text: str) -> None:
    for lines in (False, True):
        made = printable(text, lines=lines)
        kept = {"\n", "\t"} if lines else set()
        assert len(made) == len(text)
        assert all(c.isprintable() or c in kept or c.isspace() for c in made)
        assert not set(made) & (STEERS - kept)
        assert printable(made, lines=lines) == made
    if text.isprintable():
        assert printable(text) == text


def test_spaces_and_letters_of_all_scripts_stay() -> None:
    kept = "größer, 日本語, \u00a0\u3000, █▏ → x"
    assert printable(kept) == kept
    assert printable("a\nb\tc") == "a b c"
    assert printable("a\nb\tc\r", lines=True) == f"a\nb\tc{REPLACEMENT}"
    assert printables({"a": ["\x1b", 1, None, {"b": "\x07"}]}) == {
        "a": [REPLACEMENT, 1, None, {"b": REPLACEMENT}]
    }


@given(st.text(alphabet=st.sampled_from([*"ab \n", *sorted(STEERS)])))
def test_a_console_writes_no_control_but_its_own(text: str) -> None:
    screen_of = io.StringIO()
    console = screen.SafeConsole(
        file=screen_of, force_terminal=True, color_system="standard", markup=False, emoji=False, width=60
    )
    table = Table()
    table.add_column("Name")
    table.add_row(text)
    console.print(text, Text(text, style="red"), table)
    left = screen_of.getvalue()
    for ours in ("\x1b[31m", "\x1b[1m", "\x1b[0m", "\x1b[3m"):
        left = left.replace(ours, "")
    assert not {c for c in left if not c.isprintable()} - {"\n"}


def test_markup_of_others_is_text() -> None:
    with terminal.console.capture() as written:
        terminal.console.print("[link=https://elsewhere]here[/link] :bomb: [/]")
    assert written.get() == "[link=https://elsewhere]here[/link] :bomb: [/]\n"


# --- every command


_MEANT = re.compile(r"\d{4}-\d\d-\d\dT.*|True|False|Ready|Reconciling|Done|[0-9./]+|Normal")


def spoiled(value: Any, nasty: str) -> Any:
    """An object of which every text has something behind it, but what programs read."""
    if isinstance(value, str):
        return value if _MEANT.fullmatch(value) else value + nasty
    if isinstance(value, BaseModel):
        fields = {name: spoiled(getattr(value, name), nasty) for name in type(value).model_fields}
        return value.model_copy(update=fields)
    if isinstance(value, list | tuple):
        return type(value)(spoiled(each, nasty) for each in value)
    if isinstance(value, dict):
        return {key: spoiled(each, nasty) for key, each in value.items()}
    return value


class FakeKube:
    """A namespace in which everybody writes what steers a terminal."""

    namespace = "default"

    def __init__(self, nasty: str, more: int = 0) -> None:
        self.nasty, self.more = nasty, more

    def raw_clusters(self) -> list[Any]:
        return [self.cluster("demo").to_dict()] * (1 + self.more)

    def cluster(self, name: str) -> KafkaCluster:
        conditions = [samples.condition("Ready", "True"), samples.condition("DataAtRisk", "True")]
        waiting = {
            "action": "Move",
            "object": "Topic/t",
            "reason": "Any",
            "message": "m",
            "since": samples.NOW,
        }
        made = samples.ready(name, conditions=conditions, waiting=[{**waiting, "unblockedBy": "somebody"}])
        found: KafkaCluster = spoiled(KafkaCluster.parse(made), self.nasty)
        return found

    def view(self, name: str) -> ClusterView:
        pod = spoiled(samples.pod("demo-controller-0"), self.nasty)
        return ClusterView(self.cluster(name).to_dict(), (self.broker("").to_dict(),), (pod,))

    def broker(self, name: str) -> KafkaBroker:
        disks = [samples.disk(0, "disk0", message="slow"), samples.disk(0, "disk1", state="Failed")]
        found: KafkaBroker = spoiled(KafkaBroker.parse(samples.broker(0, *disks)), self.nasty)
        return found

    def raw(self, kind: str, name: str) -> Any:
        made = samples.broker(0, samples.disk(0, "disk0")) if kind == "KafkaBroker" else samples.ready(name)
        return spoiled(made, self.nasty)

    def apply(self, body: Any, manager: str, *, force: bool = False) -> Any:
        return spoiled(body, self.nasty)

    def json_patch(self, *_: Any) -> None:
        return

    def rebalances(self, cluster: str | None) -> list[KafkaRebalance]:
        return [self.rebalance("")]

    def rebalance(self, name: str) -> KafkaRebalance:
        moves = move(0, (0, D0), (2, D1), reason="it is full")
        status = {"phase": "Done", "progress": "1/1", "message": "All is done."}
        found: KafkaRebalance = spoiled(KafkaRebalance.parse(rebalance(moves, status=status)), self.nasty)
        return found

    def change_rebalance(self, *_: Any) -> None:
        return

    one_cluster = Kube.one_cluster


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.delenv(ENV_CREDENTIALS, raising=False)
    monkeypatch.setattr(status_commands, "_POLL_S", 0.0)
    monkeypatch.setattr(terminal.console, "_width", 400)

    def connect(kube: Any) -> None:
        monkeypatch.setattr(Kube, "connect", lambda namespace=None: kube)

    return connect


COMMANDS = [
    pytest.param(["status"], 0, id="status"),
    pytest.param(["status"], 1, id="status-of-several"),
    pytest.param(["wait", "demo"], 0, id="wait"),
    pytest.param(["stop", "demo-broker-0"], 0, id="stop"),
    pytest.param(["start", "demo-broker-0"], 0, id="start"),
    pytest.param(["broker", "remove-first", "demo-broker-0"], 0, id="remove-first"),
    pytest.param(["broker", "node-lost", "demo-broker-0", "--node", "n"], 0, id="node-lost"),
    pytest.param(["disk", "drain", "demo-broker-0", "disk0"], 0, id="drain"),
    pytest.param(["disk", "release", "demo-broker-0", "disk0"], 0, id="release"),
    pytest.param(["disk", "accept-loss", "demo-broker-0", "disk0", "--token", "t"], 0, id="accept-loss"),
    pytest.param(["pause", "demo"], 0, id="pause"),
    pytest.param(["resume", "demo"], 0, id="resume"),
    pytest.param(["rollout", "status"], 0, id="rollout-status"),
    pytest.param(["rollout", "restart"], 0, id="rollout-restart"),
    pytest.param(["rebalance", "list"], 0, id="rebalance-list"),
    pytest.param(["rebalance", "show", "one"], 0, id="rebalance-show"),
    pytest.param(["rebalance", "wait", "one"], 0, id="rebalance-wait"),
    pytest.param(["rebalance", "approve", "one"], 0, id="rebalance-approve"),
    pytest.param(["rebalance", "stop", "one"], 0, id="rebalance-stop"),
    pytest.param(["preview", "FILE"], 0, id="preview"),
]


@pytest.mark.parametrize(("command", "more"), COMMANDS)
@pytest.mark.parametrize("nasty", [*NASTY, ALL])
def test_no_command_passes_on_what_steers_a_terminal(
    connected: Callable[..., None], tmp_path: Any, command: list[str], more: int, nasty: str
) -> None:
    connected(FakeKube(nasty, more))
    file = tmp_path / "demo.yaml"
    file.write_text(yaml.safe_dump(samples.cluster("demo", phase="x")))

    done = RUNNER.invoke(main.app, [str(file) if each == "FILE" else each for each in command])

    assert shown(done)


def test_a_message_of_others_has_no_line_of_its_own(connected: Callable[..., None]) -> None:
    forged = "x\nWaiting: for nothing"
    connected(FakeKube(forged))
    for command in (["status"], ["wait", "demo"], ["rebalance", "show", "one"]):
        lines = shown(RUNNER.invoke(main.app, command)).splitlines()
        assert not [line for line in lines if line.startswith("Waiting: for nothing")]


def test_json_stays_json_with_every_character_in_it(connected: Callable[..., None]) -> None:
    connected(FakeKube(ALL))
    done = RUNNER.invoke(main.app, ["status", "-o", "json"])
    assert json.loads(done.stdout)["cluster"]["status"]["phase"].endswith(f"are ready.{ALL}")
    shown(done)


@pytest.mark.parametrize("nasty", [*NASTY, ALL])
def test_nor_does_an_error(
    connected: Callable[..., None], monkeypatch: pytest.MonkeyPatch, nasty: str
) -> None:
    kube = FakeKube("")
    connected(kube)
    for error in (KubeError(f"the API server says {nasty}"), ClientError(f"Kafka says {nasty}")):
        monkeypatch.setattr(kube, "view", Mock(side_effect=error))
        assert shown(RUNNER.invoke(main.app, ["status", "demo"])).startswith("spindle: ")


@pytest.mark.parametrize("nasty", [*NASTY, ALL])
def test_nor_do_the_words_of_a_job_of_the_helper_pod_and_of_kafka(
    capsys: pytest.CaptureFixture[str], nasty: str
) -> None:
    screen.tell(following.event_of(json.dumps({"event": f"said {nasty}"})))
    helper_pod.write_line(f"line {nasty}")
    screen.say(f"a report\n{nasty}\n")
    topic = TopicView(f"orders{nasty}", (PartitionView(0, 0, (0,), (0,)),), {0: nasty})
    dirs: disk_bars.Found = {0: [DirView(f"/{nasty}", online=True)], 1: nasty}
    with terminal.console.capture() as written:
        topics._show(topic, terminal.console)
        for line in disk_bars.lines({0: nasty, 1: ""}, dirs, 20):
            terminal.console.print(line, soft_wrap=True, markup=False)
    text = capsys.readouterr().out + written.get()
    assert "said" in text
    assert not {c for c in text if not c.isprintable()} - {"\n"}
