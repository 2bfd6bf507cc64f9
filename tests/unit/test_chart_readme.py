"""The chart's README; that it is up to date is a test of all generated files."""

from tools.chart_readme import CHART, Value, readme, values

TEXT = """\
# Of all
# pods.
one:
  # A <b> | c.
  two: 3
  three: {a: b}

# A list.
four:
- x
- y
five: []
"""


def test_a_value_has_the_comment_above_it() -> None:
    assert values(TEXT) == [
        Value("one", None, "Of all pods."),
        Value("one.two", "3", "A <b> | c."),
        Value("one.three", '{"a": "b"}', ""),
        Value("four", "[…]", "A list."),
        Value("five", "[]", ""),
    ]


def test_no_comment_is_read_as_markup() -> None:
    assert "| `one.two` | `3` | A \\<b> \\| c. |" in readme(TEXT)


def test_every_value_of_the_chart_or_its_object_is_explained() -> None:
    found = values((CHART / "values.yaml").read_text())
    explained = {value.path for value in found if value.comment}
    says_it_all = {  # as in Kubernetes, or after the line above
        *("podLabels", "nodeSelector", "tolerations", "affinity", "priorityClassName", "serviceAccount.annotations"),
        *(f"agent.{name}" for name in ("podAnnotations", "podLabels", "tolerations", "affinity", "priorityClassName")),
    }  # fmt: skip
    for value in found:
        path = value.path
        while path and path not in explained:
            path = path.rpartition(".")[0]
        if path in ("", "agent"):  # no comment, or only that of the agents as a whole
            assert value.path in {*says_it_all, "agent"}, value.path
