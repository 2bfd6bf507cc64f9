"""CEL rules that reject keys in the user's Kafka configuration that Spindle owns."""

from spindle.api.common import rule
from spindle.api.owned import OWNED, Owned


def _hits(group: Owned) -> str:
    """A CEL expression: whether key ``k`` belongs to this group."""
    tests = []
    if group.keys:
        tests.append(f"k in [{', '.join(repr(key) for key in group.keys)}]")
    free = f" && !(k in [{', '.join(repr(key) for key in group.free)}])" if group.free else ""
    tests += [
        f"(k.startsWith({prefix!r}){free})" if free else f"k.startsWith({prefix!r})"
        for prefix in group.prefixes
    ]
    return " || ".join(tests)


def config_rules() -> list[dict[str, str]]:
    """One rule for each group of owned keys; its message names the rejected key and what to do instead."""
    made = []
    for group in OWNED:
        hits = _hits(group)
        made.append(
            rule(
                f"self.all(k, !({hits}))",
                f"this configuration sets a key that Spindle owns ({group.subject}): {group.way_out}",
                say=f"self.filter(k, {hits})[0] + ' is owned by Spindle ({group.subject}): {group.way_out}'",
            )
        )
    made.append(
        rule(
            "self.all(k, k.matches('^[a-z][a-z0-9._-]*$'))",
            "keys are names of Kafka's broker configuration, in lowercase letters and dots: write for example num.io.threads",
            say='"a key of this configuration is not a valid name: write lowercase letters and dots, for example num.io.threads"',
        )
    )
    return made
