"""The manual says what the code says."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_metric_of_the_agent_is_on_its_page_and_no_other() -> None:
    code = (ROOT / "agent/spindle_agent/metrics.py").read_text()
    named = set(re.findall(r'"(spindle_agent_[a-z_]+)"', code))
    page = {
        name.removesuffix("_total")
        for name in re.findall(r"`(spindle_agent_[a-z_]+)`", (ROOT / "docs/agent.md").read_text())
    }

    assert {name for name in named - page if not name.endswith("_age_seconds")} == set()
    assert {name for name in page - named if not name.endswith("_age_seconds")} == set()


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_readmes_sample_is_the_example() -> None:
    sample = (ROOT / "README.md").read_text().split("```yaml\n", 1)[1].split("```", 1)[0]

    assert sample == (ROOT / "examples/quickstart.yaml").read_text()
    assert len(sample.splitlines()) <= 12
    assert yaml.safe_load(sample)["kind"] == "KafkaCluster"
