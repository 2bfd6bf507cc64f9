"""What holds of any sample, and of any bytes at all."""

import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.samples.codec import Poison, decode, decode_all, encode
from spindle.samples.framing import Version, seal, unseal
from spindle.samples.schema import Sample
from tests.examples import examples
from tests.unit.sample_rows import disks, replicas, sample

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SIZES = st.integers(0, 2**63 - 1)
RATES = st.none() | st.floats(0, allow_infinity=False)
ROWS = st.tuples(TEXTS, st.integers(0, 2**31 - 1), TEXTS, SIZES, RATES, st.none() | st.booleans())
DISK_ROWS = st.fixed_dictionaries(
    {"dir": TEXTS, "disk": TEXTS},
    optional={
        "kind": st.none() | TEXTS,
        "capacity": st.none() | SIZES,
        "used": st.none() | SIZES,
        "reads_per_s": RATES,
        "write_bytes_per_s": RATES,
        "write_ms": RATES,
        "state": st.none() | TEXTS,
    },
)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    parts = draw(st.integers(1, 4))
    return Sample(
        cluster_id=draw(TEXTS),
        broker=draw(st.integers(0, 2**31 - 1)),
        rack=draw(TEXTS),
        at_ms=draw(st.integers(0, 10**14)),
        interval_s=draw(st.floats(0.001, 86400)),
        replicas=replicas(draw(st.lists(ROWS, max_size=30))),
        disks=disks(*draw(st.lists(DISK_ROWS, max_size=5))),
        part=draw(st.integers(0, parts - 1)),
        parts=parts,
    )


def read(value: bytes) -> Sample | None:
    """Anything but a sample or poison is an error of ours."""
    try:
        return decode(value)
    except Poison:
        return None


@settings(max_examples=200)
@given(samples())
def test_round_trip(one: Sample) -> None:
    assert decode(encode(one)) == one


@settings(max_examples=examples(100))
@given(st.binary(max_size=2000), st.booleans())
def test_arbitrary_bytes_are_poison(data: bytes, marked: bool) -> None:
    assert read(b"SPDL" + data if marked else data) is None


@settings(max_examples=examples(100))
@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(0, 255))
def test_arbitrary_sections_are_poison(sections: list[bytes], minor: int) -> None:
    assert read(seal(Version(1, minor), sections)) is None


@settings(max_examples=examples(200))
@given(
    samples(),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_what_was_changed_on_the_way_is_never_taken_for_the_same(
    one: Sample, changes: list[tuple[float, int]], cut: float
) -> None:
    value = encode(one)
    mutated = bytearray(value)
    for where, byte in changes:
        mutated[int(where * len(value))] = byte
    del mutated[int(cut * len(value)) + 1 :]

    found = read(bytes(mutated))
    # All but the minor version is under the checksum or stands for itself.
    assert found is None or bytes(mutated[:5] + mutated[6:]) == value[:5] + value[6:]


@settings(max_examples=examples(300))
@given(
    samples() | st.just(sample()),
    st.integers(0, 2),
    st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255)
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_damage_that_its_checksum_does_not_show(
    one: Sample, section: int, changes: list[tuple[float, int]]
) -> None:
    version, sections = unseal(encode(one), 1)
    damaged = bytearray(sections[section])
    for where, byte in changes:
        damaged[int(where * len(damaged))] = byte
    value = seal(version, [bytes(damaged) if i == section else bytes(s) for i, s in enumerate(sections)])
    assert zlib.crc32(value[12:]) == int.from_bytes(value[8:12], "little")

    found = read(value)
    if found is not None:  # then it is a sample like any other
        assert decode(encode(found)) == found


def alone(value: bytes) -> Sample | tuple[str, str]:
    try:
        return decode(value)
    except Poison as error:
        return error.reason, str(error)


@settings(max_examples=examples(200))
@given(
    st.lists(samples(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans(), SIZES), max_size=12),
    st.data(),
)
def test_records_that_are_decoded_together_are_what_each_is_alone(
    kinds: list[Sample], order: list[tuple[int, int, bool, int]], data: st.DataObject
) -> None:
    values = []
    for which, section, damaged, number in order:
        version, sections = unseal(encode(kinds[which % len(kinds)]), 1)
        made = [bytearray(each) for each in sections]
        if damaged:
            at = data.draw(st.integers(0, len(made[section]) - 1))
            made[section][at] = number % 256
        values.append(seal(version, [bytes(each) for each in made]))

    found = [(each.reason, str(each)) if isinstance(each, Poison) else each for each in decode_all(values)]

    assert found == [alone(value) for value in values]
