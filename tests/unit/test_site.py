"""The site has every page of the documentation, and each link on it leads to something on it."""

import re
import tomllib
from pathlib import Path

import pytest

from e2e.browser import browser
from e2e.chromium import Chromium
from tools.site.build import build, generate
from tools.site.check import complaints
from tools.site.markdown import with_wide_lists, without_diagrams
from tools.site.pages import CONFIG, DOCS, ROOT, pages_of, place, prepare, relink

PROGRAM = browser() or ""
TEXT_OF_RESULTS = "[...document.querySelectorAll('div')].map(e => e.shadowRoot?.querySelector('ol')?.textContent ?? '').join('')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(folder) == 0
    return folder / "site"


def test_the_navigation_lists_every_page_once(tmp_path: Path) -> None:
    config = tomllib.loads(prepare(tmp_path))

    listed = list(pages_of(config["project"]["nav"]))
    there = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.md")}
    assert sorted(listed) == sorted(there)
    assert {str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")} <= there
    assert {f"files/{file.relative_to(ROOT)}.md" for file in (ROOT / "examples").rglob("*.yaml")} <= there


def test_the_navigation_goes_the_readers_way() -> None:
    nav = tomllib.loads(CONFIG.read_text())["project"]["nav"]

    assert [title for part in nav for title in part] == [
        *("Overview", "Get started", "Operate", "Disks", "Racks", "Rebalance"),
        *("Security", "Monitor", "Reference", "Internals"),
    ]


def test_the_overview_has_the_parts_and_pages_of_the_navigation() -> None:
    nav = tomllib.loads(CONFIG.read_text())["project"]["nav"]
    text = (DOCS / "index.md").read_text()
    parts = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))

    assert list(parts) == [title for part in nav[1:] for title in part]
    for title, pages in (pair for part in nav[1:] for pair in part.items()):
        linked = [each for each in re.findall(r"\]\(([^)]+)\)", parts[title]) if each.endswith(".md")]
        listed = [page for page in pages_of(pages) if not page.startswith(("files/", "reference/kafka"))]
        assert [page for page in linked if not page.startswith("../")] == [
            page for page in listed if page.endswith(".md")
        ]


def test_the_site_has_every_page(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html")
        assert (site / name).exists() or (
            name.name == "README.html" and (site / name.parent / "index.html").exists()
        )
    assert (site / "files/tests/unit/test_rolling.py.txt").read_text() == (
        ROOT / "tests/unit/test_rolling.py"
    ).read_text()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A site of one page, which has nothing wrong."""
    config = CONFIG.read_text().replace("build/", "")
    head, rest = config.split("nav = [\n", 1)
    rest = rest.split("\n]\n", 1)[1]
    (tmp_path / CONFIG.name).write_text(f'{head}nav = ["index.md"]\n{rest}')
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/index.md").write_text("# Title\n\n[here](#title)\n")
    return tmp_path


def test_a_page_with_nothing_wrong(small: Path) -> None:
    assert generate(small) == 0


@pytest.mark.parametrize("wrong", ["[a page](none.md)", "[an anchor](#none)"])
def test_a_link_that_leads_nowhere_fails_the_build(small: Path, wrong: str) -> None:
    with (small / "pages/index.md").open("a") as page:
        page.write(f"\n{wrong}\n")

    assert generate(small) != 0
    assert not (small / "site/assets/javascripts/worker.js").exists()  # the generator itself has refused it


def test_what_the_generator_does_not_notice_fails_the_build(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {
        "![a picture](none.png)": "none.png is not there",
        "[a file](none.txt)": "the link none.txt leads nowhere",
        '<a href="none.html">a link in HTML</a>': "the link none.html leads nowhere",
        '<a href="index.html#none">an anchor in HTML</a>': "the anchor of index.html#none is not there",
        '<img src="https://example.org/x.png">': "loads https://example.org/x.png",
        '<script src="https://example.org/x.js"></script>': "loads https://example.org/x.js",
        "A paragraph\n| a | b |": "not read as a list or table: | a | b |",
        "Another\n- of items": "not read as a list or table: - of items",
    }
    with (small / "pages/index.md").open("a") as page:
        page.writelines(f"\n{each}\n" for each in wrong)

    assert generate(small) == 1
    said = capsys.readouterr().err.splitlines()
    assert sorted(said) == sorted(f"site: index.html: {each}" for each in wrong.values())


def test_a_style_that_loads_from_elsewhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@font-face { src: url(https://example.org/font.woff2) }")

    assert complaints(tmp_path) == ["x.css: loads https://example.org/font.woff2"]


def test_links_out_of_docs_lead_to_files_of_the_site() -> None:
    text, linked = relink(
        "[a](../../examples/users.yaml) [b](../users.md#x) [c](https://example.org/) [d](#here) [e](../../tests/sim/rules.py#L3)\n",
        DOCS / "adr/0001-bare-pods.md",
    )

    assert text == (
        "[a](../files/examples/users.yaml.md) [b](../users.md#x) [c](https://example.org/) [d](#here)"
        " [e](../files/tests/sim/rules.py.txt#L3)\n"
    )
    assert linked == {ROOT / "examples/users.yaml", ROOT / "tests/sim/rules.py"}
    assert place(ROOT / "CHANGELOG.md") == Path("files/CHANGELOG.md")


def test_links_in_code_stay() -> None:
    code = "```yaml\n# [x](../examples/users.yaml)\n```\n"
    assert relink(code, DOCS / "users.md") == (code, set())


def test_a_diagram_that_needs_another_server_is_left_out() -> None:
    assert without_diagrams("a\n\n```mermaid\nx --> y\n```\n\nb\n") == "a\n\nb\n"
    # What it shows is also on its page.
    text = (DOCS / "reference/disk-life.md").read_text()
    shown = set(re.findall(r"^    (\w+) --> (\w+)", text, re.MULTILINE))
    told = set(re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\w+)` \|", text, re.MULTILINE))
    assert shown
    assert shown <= told
    pages = [file for file in DOCS.rglob("*.md") if "adr" not in file.parts]
    assert [file.name for file in pages if "```mermaid" in file.read_text()] == ["disk-life.md"]


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("- a\n  b\n", "- a\n    b\n"),
        ("1. a\n   - b\n     c\n2. d\n", "1. a\n    - b\n        c\n2. d\n"),
        ("1. a\n\n   b\n2. c\n", "1. a\n\n    b\n\n2. c\n"),
        ("- a\n\n      code\n\ntext\n\n    code\n", "- a\n\n        code\n\ntext\n\n    code\n"),
        ("- a\n\n  ```yaml\n  - x\n    y: z\n  ```\n", "- a\n\n    ```yaml\n    - x\n      y: z\n    ```\n"),
        ("```yaml\n- x:\n  - y\n```\n- a\nb\n", "```yaml\n- x:\n  - y\n```\n- a\n    b\n"),
        ("- a\n\ntext\n- b\n", "- a\n\ntext\n\n- b\n"),
    ],
)
def test_lists_are_indented_as_the_generator_reads_them(text: str, wide: str) -> None:
    assert with_wide_lists(text) == wide


@pytest.mark.skipif(not PROGRAM, reason="there is no browser")
def test_search_finds_in_a_site_that_was_opened_as_a_file(site: Path, tmp_path: Path) -> None:
    with Chromium(PROGRAM, tmp_path) as running:
        tab = running.tab()
        tab.open((site / "files/examples/users.yaml.html").as_uri())
        tab.wait(
            "document.readyState === 'complete' && document.querySelector('button.md-search__button')", 60
        )
        tab.evaluate("document.querySelector('button.md-search__button').click()")
        tab.wait("[...document.querySelectorAll('div')].some(e => e.shadowRoot?.querySelector('input'))", 60)
        for key in "copy":
            tab.press(key)
        tab.wait(f"{TEXT_OF_RESULTS}.includes('last copy')", 60)
        assert [each for each in tab.requested() if not each.startswith(("file:", "data:"))] == []
        assert tab.complaints() == []
