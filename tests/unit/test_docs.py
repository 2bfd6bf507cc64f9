"""The manual says what the code says."""

import re
from pathlib import Path

import yaml

from spindle.metrics.table import all_metrics
from spindle.reasons import all_reasons

ROOT = Path(__file__).resolve().parents[2]
# Names of packages and topics, not of metrics.
PACKAGES = (
    "spindle_operator",
    "spindle_agent",
    "spindle_rebalance",
    "spindle_cli",
    "spindle_shared",
    "spindle_samples",
    "spindle_kafka",  # as Python names the package of a release
)
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_pages_name_only_metrics_that_are_exported() -> None:
    names = {series for metric in all_metrics() for series in (metric.name, *metric.series)}
    unknown = {
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        if "adr" not in page.parts and page.name != "CHANGELOG.md"
        for name in re.findall(r"\bspindle_[a-z_]+\b", page.read_text())
        if name not in names
    }
    assert {each for each in unknown if not each.endswith(tuple(PACKAGES))} == set()


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_no_page_and_no_message_asks_for_a_patch_by_hand() -> None:
    """Each has a command of Spindle's, which refuses what would harm."""
    sources = [
        file for folder in ("core", "operator", "agent", "cli") for file in (ROOT / folder).rglob("*.py")
    ]
    asking = [
        str(file.relative_to(ROOT))
        for file in (*PAGES, *sources)
        if not {"adr", "CHANGELOG.md"} & set(file.relative_to(ROOT).parts)
        and re.search(r"kubectl (-\S+ \S+ )*patch (?!configmap argocd-cm)", file.read_text())
    ]
    assert asking == []


def test_symptoms_name_reasons_that_exist() -> None:
    known = {reason.name for reason in all_reasons()}
    # States of pods and disks, conditions, and an error of Kafka's clients.
    others = {"Pending", "Init", "Ready", "NotEnoughReplicas", "Failed", "Evacuating", "Evacuated"}
    others |= {"ClocksAgree", "Reconciling"}
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", (ROOT / "docs/troubleshooting.md").read_text()))
    assert named - known == others
    assert len(named & known) > 25


def test_the_readmes_sample_is_the_example() -> None:
    sample = (ROOT / "README.md").read_text().split("```yaml\n", 1)[1].split("```", 1)[0]

    assert sample == (ROOT / "examples/quickstart.yaml").read_text()
    assert len(sample.splitlines()) <= 12
    assert yaml.safe_load(sample)["kind"] == "KafkaCluster"
