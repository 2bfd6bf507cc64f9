"""Messages that the manual quotes are messages of the code, so that no page shows what Spindle does not say any more.

Quoted is, on the pages of ``docs`` and in the README,

- in code blocks: what follows a reason and a colon (``DiskFailed: …``), a condition with its status (``DisksHealthy False: …``), and the
  column STATUS of ``kubectl get``. A message that does not end with a full stop continues on the next line;
- in the text: three words or more between double quotes, or between backticks if they begin like a sentence.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spindle.reasons import all_reasons
from tests.messages import Quote, in_code

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_NAMES = sorted({reason.name for reason in all_reasons()}, key=len, reverse=True)
_MESSAGE = re.compile(rf"\b(?:{'|'.join(_NAMES)}|[A-Z]\w+ (?:True|False|Unknown)): (.+)$")
_INLINE = re.compile(r'(?<![=`])"([^"`]+)"')
_SENTENCE = re.compile(r"`([A-Z][a-z]+ [^`]+)`")
_ENDS = (".", "…")


def _blocks(text: str) -> Iterator[tuple[bool, int, str]]:
    """Each line with its number and whether it is in a code block: fenced, or indented after an empty line or after such a line."""
    fenced, before, code = False, True, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        indented = line.startswith("    ") and (before or code)
        code = fenced or indented
        before = not line.strip()
        yield code, number, line


def _quotes(text: str) -> Iterator[Quote]:
    open_quote: Quote | None = None
    column: int | None = None
    for code, number, line in _blocks(text):
        if not code:
            column = None
            line_without_code = re.sub(r"`[^`]*`", "`", line)
            for quoted in (*_INLINE.findall(line_without_code), *_SENTENCE.findall(line)):
                if len(quoted.split()) > 2:
                    yield Quote(number, quoted)
            continue
        if line.split()[:1] == ["NAME"]:
            column = line.find("STATUS") if "STATUS" in line else None
            continue
        found = _MESSAGE.search(line)
        if open_quote is not None and found is None:
            open_quote = Quote(open_quote.line, f"{open_quote.text} {line.strip()}")
        elif column is not None and len(line) > column and line[column - 1 : column] == " ":
            open_quote = Quote(number, line[column:].strip())
        elif found is not None:
            open_quote = Quote(number, found[1].strip())
        if open_quote is not None and open_quote.text.endswith(_ENDS):
            yield open_quote
            open_quote = None
    assert open_quote is None, f"line {open_quote.line}: the message has no end"


def test_messages_on_pages_are_messages_of_the_code() -> None:
    stale = [
        f"{page.relative_to(ROOT)}:{quote.line}: {quote.text}"
        for page in PAGES
        for quote in _quotes(page.read_text())
        if not in_code(quote.text)
    ]

    assert stale == []


def test_pages_quote_messages_of_every_kind() -> None:
    """The search still finds what the pages have."""
    found = {page.name: [quote.text for quote in _quotes(page.read_text())] for page in PAGES}

    assert len(found["disk-failed.md"]) > 15
    assert any(text.startswith("Running: 3/3 brokers") for text in found["disk-failed.md"])  # a column
    assert any("fit nowhere else" in text for text in found["change-disks.md"])  # two lines and more
    assert found["scaling.md"]  # a list's item
    assert found["starts.md"]  # in the text
    assert found["agent.md"]  # between backticks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("demo-broker-1: KafkaBrokers, pods could not be read, so it is unknown what exists. Spindle changes nothing meanwhile.", True),
        ("demo-broker-1: KafkaBrokers, pods could not be read, so it is unknown what is there. Spindle changes nothing meanwhile.", False),
        ("Waiting: 2/3 brokers, 3/3 controllers ready, 5/6 disks healthy. KafkaBroker/demo-broker-2: NodeLost.", True),
        ("Waiting: 2/3 brokers, 3/3 controllers ready, 5/6 disks sound. KafkaBroker/demo-broker-2: NodeLost.", False),
        ("disk1 of demo-broker-2 is backfilled.", True),
        ("disk1 of demo-broker-2 carries its share again.", False),
        ("31 replicas, orders-3, … and 4 more", True),
        ("31 replicas moved", False),
    ],
)  # fmt: skip
def test_what_the_code_can_say(text: str, *, said: bool) -> None:
    assert in_code(text) is said
