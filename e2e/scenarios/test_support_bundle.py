"""The support bundle of a running cluster: it has the logs, and no key and no password of any Secret."""

import base64
import json
import tarfile
from pathlib import Path
from typing import Final

import pytest

from e2e.scenarios.lab import CLUSTER, SYSTEM, Lab

pytestmark = pytest.mark.e2e

_PUBLIC: Final = ("ca.crt", "tls.crt", "bootstrap")  # certificates and addresses are no secrets


def _secrets(lab: Lab) -> dict[str, str]:
    """Each value of each Secret, by the Secret's name and the key."""
    found = {}
    for namespace in (lab.namespace, SYSTEM):
        listed = json.loads(lab.kubectl("get", "secrets", "-n", namespace, "-o", "json"))["items"]
        for secret in listed:
            for key, value in (secret.get("data") or {}).items():
                if not key.endswith(".crt") and not key.startswith(_PUBLIC):
                    found[f"{secret['metadata']['name']} {key}"] = value
    return found


def test_the_support_bundle_has_the_logs_and_no_secret(running: Lab, tmp_path: Path) -> None:
    out = tmp_path / "bundle.tar.gz"
    running.spindle("report", CLUSTER, "-n", running.namespace, "-o", str(out))

    with tarfile.open(out) as archive:
        files = {each.name: archive.extractfile(each) for each in archive.getmembers()}
        bundle = {name: file.read().decode() for name, file in files.items() if file}
    text = "\n".join(bundle.values())
    secrets = _secrets(running)
    assert any(key.endswith("tls.key") for key in secrets)
    for name, coded in secrets.items():
        value = base64.b64decode(coded).decode(errors="replace")
        lines = [line for line in value.splitlines() if len(line) >= 12 and not line.startswith("-----")]
        assert not [line for line in lines if line in text], f"a line of {name} is in the bundle"
        assert (
            coded[:60] not in text or coded[:60] in base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()
        ), name
    logs = {name: content for name, content in bundle.items() if "/logs/" in name}
    assert any(SYSTEM in name and '"event"' in content for name, content in logs.items()), sorted(logs)
    assert any(name.endswith("/kafka.log") and " INFO " in content for name, content in logs.items())
    assert "quorum" in bundle["bundle/kafka.json"]
    print(f"{out.stat().st_size >> 10} KiB, {len(bundle)} files; {bundle['bundle/problems.txt']}")
