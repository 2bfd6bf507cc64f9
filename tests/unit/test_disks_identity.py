import pytest

from spindle.model.dir_list import NO_LIST
from spindle.model.disk_identity import (
    Identity,
    MetaProperties,
    parse_identity,
    parse_log_dirs,
    parse_meta_properties,
    render_identity,
    render_meta_properties,
)

IDENTITY = Identity("cluster", 3, "disk1", "directory")


def test_what_is_rendered_is_read_back() -> None:
    assert parse_identity(render_identity(IDENTITY, "uuid")) == IDENTITY
    assert parse_meta_properties(render_meta_properties(IDENTITY)) == MetaProperties(
        "cluster", 3, "directory"
    )


def test_kafkas_own_meta_properties_is_read() -> None:
    text = "#\n#Sat Nov 21 11:37:49 UTC 2026\nnode.id=9000\ndirectory.id=d\r\nversion=1\ncluster.id=c==\n"
    assert parse_meta_properties(text) == MetaProperties("c==", 9000, "d")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"clusterId": "c", "nodeId": 0, "disk": 1, "directoryId": "d"}']
)
def test_identity_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_identity(text)


@pytest.mark.parametrize(
    "text", ["", "version=0\nbroker.id=1", "version=1\nnode.id=1", "version=1\nnode.id=x\ncluster.id=c"]
)
def test_meta_properties_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_meta_properties(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        '{"clusterId": "c", "nodeId": 1e999, "disk": "d", "directoryId": "x", "logDirs": {"generation": 1e999, "dirs": []}}',
        '{"clusterId": "c", "nodeId": ' + "9" * 5000 + ', "disk": "d", "directoryId": "x"}',
        '{"clusterId": 1, "nodeId": 0, "disk": [], "directoryId": null}',
    ],
    ids=["deep", "infinite", "long", "types"],
)
def test_nothing_that_somebody_wrote_ends_the_one_who_reads_it(text: str) -> None:
    with pytest.raises(ValueError):
        parse_identity(text)
    assert parse_log_dirs(text) == NO_LIST
