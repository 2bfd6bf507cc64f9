"""``python -m tools.sbom`` writes a document for each image that is built here; with an archive of an image, for that one.

python -m tools.sbom                                 build the images, if need be, and write build/sbom/<image>.cdx.json
python -m tools.sbom spindle.tar --name spindle      an archive of ``docker save`` or ``podman save``
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.sbom.catalogue import catalogue
from tools.sbom.document import write
from tools.sbom.layers import ImageError, open_image

OUT: Final = Path("build") / "sbom"


def document(path: Path, name: str, version: str) -> str:
    """The document of one image.

    Args:
        path: a folder of blobs with their OCI manifest, or an archive.
        name, version: of the image.
    """
    with open_image(path) as image:
        return write(name, version, image, catalogue(image))


def built() -> Iterator[tuple[str, Path]]:
    """Name, with its tag, and folder of each image that users run."""
    # Only here: an archive can be read where nothing of the testbed can run.
    from e2e.cluster.images import ensure_kafka_image, ensure_rebalance_image, ensure_spindle_image  # noqa: PLC0415

    for ensure in (ensure_kafka_image, ensure_spindle_image, ensure_rebalance_image):
        image = ensure()
        yield image.name, image.folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="sbom", description="Write what images are made of, as CycloneDX.")
    parser.add_argument("archive", nargs="?", type=Path, help="of one image (default: those built here)")
    parser.add_argument("--name", help="of the image (default: the archive's), with its tag")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder for the documents (default: {OUT})")
    options = parser.parse_args(arguments)
    found = [(options.name or options.archive.stem, options.archive)] if options.archive else built()
    options.out.mkdir(parents=True, exist_ok=True)
    for full, path in found:
        name, _, version = full.rpartition("/")[2].partition(":")
        try:
            text = document(path, name, version)
        except ImageError as error:
            print(f"sbom: {full}: {error}", file=sys.stderr)
            return 1
        target = options.out / f"{name}.cdx.json"
        target.write_text(text, encoding="utf-8")
        print(f"sbom: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
