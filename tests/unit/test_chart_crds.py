"""The chart carries the definitions of ``crds/``, word for word."""

from typing import Any

import pytest
import yaml

from tools import chart_crds


def test_the_templates_are_up_to_date() -> None:
    wanted = chart_crds.templates()
    there = {path: path.read_text() for path in chart_crds.TEMPLATES.glob("crd-*.yaml")}
    behind = [path.name for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path)]
    assert behind == [], "run `make generate`"


def test_every_definition_is_there() -> None:
    kinds = {path.name for path in chart_crds.templates()}
    assert kinds == {
        "crd-kafkabrokers.yaml",
        "crd-kafkaclusters.yaml",
        "crd-kafkarebalances.yaml",
        "crd-kafkatopics.yaml",
        "crd-kafkausers.yaml",
    }


@pytest.mark.parametrize("text", ["plain", "a {{ in the middle", "{{ .Values.x }} and {{{", "}} alone"])
def test_braces_in_descriptions_survive_the_template_language(text: str) -> None:
    crd: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"description": text}}

    made = chart_crds.template(crd)

    # What the engine makes of it: the outermost directives go, the escapes become braces.
    body = made.split("install }}\n", 1)[1].removesuffix("{{- end }}\n").replace('{{ "{{" }}', "{{")
    assert yaml.safe_load(body) == {
        "metadata": {"name": "x", "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {"description": text},
    }
