"""What Spindle gives a user is on record first, and nothing that is not on record is ever taken away."""

from hypothesis import given
from hypothesis import strategies as st

from spindle.model.rights import Right, UserView
from spindle.users.rights import RecordedQuota, RightsChange, UserRecord, change, read_record, write_record

RIGHTS = [Right("topic", name, "literal", operation, "*") for name in "ab" for operation in ("Read", "Write")]
rights = st.frozensets(st.sampled_from(RIGHTS))
quotas = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "request_percentage"]), st.sampled_from([1.0, 2.0])
)
made = st.builds(
    RecordedQuota, st.frozensets(st.sampled_from([1.0, 2.0]), min_size=1), st.sampled_from([None, 2.0, 3.0])
)
records = st.builds(
    UserRecord, rights, st.dictionaries(st.sampled_from(["producer_byte_rate", "request_percentage"]), made)
)
views = st.builds(UserView, rights, st.just(False), quotas)


@given(rights, quotas, records, views)
def test_only_what_is_on_record_is_given_or_taken(
    wanted: frozenset[Right], limits: dict[str, float], record: UserRecord, view: UserView
) -> None:
    made = change(wanted, limits, record, view, password=False)
    assert set(made.give) <= record.rights
    assert set(made.take) <= record.rights
    assert made.quotas.keys() <= record.quotas.keys()
    for key in made.quotas.keys() - limits.keys():
        assert view.quotas[key] in record.quotas[key].ours, "what somebody else set stays"
        assert made.quotas[key] == record.quotas[key].before
    assert not set(made.give) & set(made.take)
    assert not (made.record.rights - record.rights) & view.rights, "what somebody else gave is not ours"


@given(rights, quotas, records, views, st.lists(st.booleans(), min_size=4, max_size=8))
def test_it_comes_to_rest_with_what_is_wanted_and_all_of_others(
    wanted: frozenset[Right],
    limits: dict[str, float],
    record: UserRecord,
    view: UserView,
    written: list[bool],
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


def carried_out(made: RightsChange, view: UserView) -> UserView:
    kept = {k: v for k, v in {**view.quotas, **made.quotas}.items() if v is not None}
    return UserView((view.rights | set(made.give)) - set(made.take), quotas=kept)


@given(
    st.dictionaries(
        st.sampled_from(["producer_byte_rate", "request_percentage"]), st.sampled_from([2.0, 3.0, 0.5])
    ),
    st.lists(st.tuples(quotas, st.sampled_from(["done", "not done", "not written", "neither"])), max_size=8),
)
def test_quotas_that_somebody_set_before_are_there_again_in_the_end(
    before: dict[str, float], passes: list[tuple[dict[str, float], str]]
) -> None:
    """However the wishes change, and wherever passes are interrupted: actions come first, then what is on record."""
    view, record = UserView(quotas=before), UserRecord()
    for limits, how in [*passes, *[({}, "done")] * 4]:
        made = change(frozenset(), limits, record, view, password=False)
        if how in ("done", "not written"):
            view = carried_out(made, view)
        if how in ("done", "not done"):
            record = read_record(write_record(made.record))
    assert view.quotas == before
    assert record == UserRecord()


@given(
    st.dictionaries(st.sampled_from(["producer_byte_rate", "request_percentage"]), st.just(1.0), min_size=1),
    st.sampled_from([None, 3.0]),
    st.sampled_from([None, 7.0]),
)
def test_a_quota_that_somebody_changed_since_is_theirs(
    limits: dict[str, float], before: float | None, since: float | None
) -> None:
    first = {key: before for key in limits if before is not None}
    view, record = UserView(quotas={key: value for key, value in first.items() if value}), UserRecord()
    for _ in range(3):
        made = change(frozenset(), limits, record, view, password=False)
        view, record = carried_out(made, view), made.record
    assert view.quotas == limits
    view = UserView(quotas={key: since for key in limits if since is not None})
    for _ in range(3):
        made = change(frozenset(), {}, record, view, password=False)
        view, record = carried_out(made, view), made.record
    assert view.quotas == {key: since for key in limits if since is not None}
