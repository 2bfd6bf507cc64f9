"""Images whose programs run at another time: the same image with an additional layer, libfaketime, and an environment that loads it.

The time of day is shifted. Monotonic clocks are not, as on a machine whose clock was set.
The kubelet and containerd are not containers, so they always use the machine's clock.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

from e2e.cluster.build import artefact
from e2e.cluster.debian import ensure_faketime, ensure_programs
from e2e.cluster.images import Image, forget_old

_INSIDE: Final = ("usr/lib/faketime/timedwait.so", "usr/lib/faketime/libfaketimeMT.so.1")
_SOURCE: Final = Path(__file__).parent / "timedwait.c"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"


def shifted(image: Image, seconds: int) -> Image:
    """The image whose programs see a time that is later (or earlier) by this many seconds, under the same name."""
    key = hashlib.sha256(f"{image.folder.name} {seconds} {_SOURCE.read_text()}".encode()).hexdigest()

    def make(folder: Path) -> None:
        manifest: dict[str, Any] = json.loads((image.folder / "manifest.json").read_text())
        config: dict[str, Any] = json.loads((image.folder / _hash(manifest["config"])).read_text())
        layer = _layer(_timedwait(), ensure_faketime())
        _put(folder, layer)
        for blob in manifest["layers"]:
            (folder / _hash(blob)).hardlink_to(image.folder / _hash(blob))
        inner = config.setdefault("config", {})
        inner["Env"] = [*(inner.get("Env") or ()), *_environment(seconds)]
        config["rootfs"]["diff_ids"].append(_digest(layer))
        config.setdefault("history", []).append({"created_by": f"clock {seconds:+d} s"})
        text = json.dumps(config).encode()
        _put(folder, text)
        manifest["config"] |= {"digest": _digest(text), "size": len(text)}
        manifest["layers"].append({"mediaType": _LAYER, "digest": _digest(layer), "size": len(layer)})
        (folder / "manifest.json").write_text(json.dumps(manifest))

    folder = artefact("image-shifted", "1", key, make)
    forget_old("image-shifted-*", folder, keep=4)
    return Image(image.name, folder)


def _environment(seconds: int) -> list[str]:
    """Environment that loads libfaketime: a fixed offset to the real time, without shared memory."""
    return [
        f"LD_PRELOAD={':'.join(f'/{file}' for file in _INSIDE)}",
        f"FAKETIME={seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",  # otherwise timed waits of a JVM never end
        "FAKETIME_DISABLE_SHM=1",
    ]


def _timedwait() -> Path:
    """Our own library, which keeps libfaketime away from condition variables; its source explains why."""
    ensure_programs("gcc")

    def make(folder: Path) -> None:
        target = str(folder / "timedwait.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", target, str(_SOURCE)], check=True)

    key = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    return artefact("timedwait", "1", key, make) / "timedwait.so"


def _layer(*libraries: Path) -> bytes:
    """A layer with only the libraries; reproducible."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, library in zip(_INSIDE, libraries, strict=True):
            body = library.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(body), 0o755
            archive.addfile(entry, io.BytesIO(body))
    return target.getvalue()


def _put(folder: Path, body: bytes) -> None:
    (folder / hashlib.sha256(body).hexdigest()).write_bytes(body)


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _hash(blob: dict[str, Any]) -> str:
    return str(blob["digest"]).removeprefix("sha256:")
