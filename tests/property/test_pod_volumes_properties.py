"""Names that others choose never lead out of a volume's place in the kubelet's folder of pods."""

import posixpath

from hypothesis import given
from hypothesis import strategies as st

from spindle.model.pod_volumes import path_in_pods, volume_type

HOSTILE = st.text(alphabet="a0.-/~_A \n\0\\é", max_size=12)
KINDS = st.sampled_from(["csi", "nfs", "iscsi", "fc", "local", "", "../csi"])
TYPES = {"cephfs", "cinder", "csi", "fc", "hostPath", "iscsi", "local", "nfs", "rbd"}  # of 8 letters at most


@given(KINDS, HOSTILE | st.uuids().map(str), HOSTILE | st.just("pvc-1.a"))
def test_a_path_stays_where_it_belongs(kind: str, uid: str, volume: str) -> None:
    found = path_in_pods(kind, uid, volume)

    if found is None:
        return
    assert posixpath.normpath(found) == found
    parts = found.split("/")
    assert parts[0] == uid
    assert parts[1] == "volumes"
    assert parts[2].startswith("kubernetes.io~")
    assert parts[3] == volume
    assert parts[4:] == (["mount"] if kind == "csi" else [])
    assert "" not in parts
    assert not {".", ".."} & set(parts)
    assert found.isprintable()


@given(st.uuids().map(str), st.from_regex(r"\A[a-z0-9]([-.a-z0-9]{0,40}[a-z0-9])?\Z"))
def test_every_name_that_kubernetes_allows_has_a_path(uid: str, volume: str) -> None:
    assert path_in_pods("csi", uid, volume) == f"{uid}/volumes/kubernetes.io~csi/{volume}/mount"


@given(st.dictionaries(st.text(max_size=8).filter(lambda key: key not in TYPES), st.none()))
def test_a_spec_of_any_shape_has_a_type_or_none(spec: dict[str, None]) -> None:
    assert volume_type(spec) == ""
    assert volume_type({**spec, "csi": {"driver": "d"}}) == "csi"
    assert volume_type({**spec, "awsElasticBlockStore": {}}) == "csi"
