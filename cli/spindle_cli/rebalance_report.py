"""``spindle rebalance report``: the report of a run, from the ConfigMap that the job wrote."""

import base64
import binascii
import gzip
import zlib
from typing import Final

from spindle.api import names
from spindle_cli.copied import command
from spindle_cli.kube import Kube, KubeError, NotFoundError

_MOST: Final = 64 * 1024 * 1024  # bytes of a page: a ConfigMap of 1 MB could unpack to far more


def fetch(kube: Kube, cluster: str) -> str:
    """The page of a cluster's latest run.

    Raises:
        KubeError: it does not exist, or cannot be unpacked.
    """
    name = names.rebalance_report(cluster)
    try:
        found = kube.config_map(name)
    except NotFoundError as error:
        raise KubeError(
            f"there is no report of {cluster} in namespace {kube.namespace}: no run has ended yet, or its report was too large for a "
            "ConfigMap; its log says which of the two"
        ) from error
    packed = (found.get("binaryData") or {}).get(names.REPORT_KEY)
    if not packed:
        raise KubeError(
            f"ConfigMap {name} has no key {names.REPORT_KEY}. To resolve: start a new run: {command(f'spindle rebalance run -c {cluster}')}"
        )
    try:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        page = unpacker.decompress(base64.b64decode(packed, validate=True), _MOST)
        if not unpacker.eof:
            raise gzip.BadGzipFile("it is truncated, or larger than any report")
        return page.decode()
    except (binascii.Error, zlib.error, OSError, UnicodeDecodeError) as error:
        raise KubeError(f"{names.REPORT_KEY} of ConfigMap {name} cannot be unpacked: {error}") from error
