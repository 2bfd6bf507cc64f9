"""What Spindle gives a user is on record first, and nothing that is not on record is ever taken away."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.cluster.rights import Right, UserView
from spindle.users.rights import Record, change

RIGHTS = [Right("topic", name, "literal", operation, "*") for name in "ab" for operation in ("Read", "Write")]
rights = st.frozensets(st.sampled_from(RIGHTS))
quotas = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "request_percentage"]), st.sampled_from([1.0, 2.0])
)
records = st.builds(
    Record, rights, st.frozensets(st.sampled_from(["producer_byte_rate", "request_percentage"]))
)
views = st.builds(UserView, rights, st.just(False), quotas)


@given(rights, quotas, records, views)
def test_only_what_is_on_record_is_given_or_taken(
    wanted: frozenset[Right], limits: dict[str, float], record: Record, view: UserView
) -> None:
    made = change(wanted, limits, record, view, password=False)
    assert set(made.give) <= record.rights
    assert set(made.take) <= record.rights
    assert made.quotas.keys() <= record.quotas
    assert not set(made.give) & set(made.take)
    assert not (made.record.rights - record.rights) & view.rights, "what somebody else gave is not ours"


@given(rights, quotas, records, views, st.lists(st.booleans(), min_size=4, max_size=8))
def test_it_comes_to_rest_with_what_is_wanted_and_all_of_others(
    wanted: frozenset[Right], limits: dict[str, float], record: Record, view: UserView, written: list[bool]
) -> None:
    """``written``: whether the status could be written in that pass; the last ones can."""
    others = view.rights - record.rights
    for could in [*written, True, True, True]:
        made = change(wanted, limits, record, view, password=False)
        kept = {k: v for k, v in {**view.quotas, **made.quotas}.items() if v is not None}
        view = UserView((view.rights | set(made.give)) - set(made.take), quotas=kept)
        record = made.record if could else record
    assert wanted <= view.rights
    assert view.rights == wanted | others
    assert {key: view.quotas.get(key) for key in limits} == limits
    assert change(wanted, limits, record, view, password=False).nothing
