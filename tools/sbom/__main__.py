"""``python -m tools.sbom`` writes a document for each image built here, or for a given image archive.

python -m tools.sbom                                 build the images if necessary, and write build/sbom/<image>.cdx.json
python -m tools.sbom spindle.tar --name spindle      archive made by ``docker save`` or ``podman save``
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
    """The CycloneDX document of one image.

    Args:
        path: folder of blobs with their OCI manifest, or an archive.
        name, version: the image's name and tag.
    """
    with open_image(path) as image:
        return write(name, version, image, catalogue(image))


def built() -> Iterator[tuple[str, Path]]:
    """Name with tag, and folder, of each image that users run."""
    # Imported here, because archives can also be read on machines where the testbed cannot run.
    from e2e.cluster.images import ensure_kafka_image, ensure_rebalance_image, ensure_spindle_image  # noqa: PLC0415

    for ensure in (ensure_kafka_image, ensure_spindle_image, ensure_rebalance_image):
        image = ensure()
        yield image.name, image.folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        prog="sbom", description="Write the contents of images as CycloneDX documents."
    )
    parser.add_argument(
        "archive", nargs="?", type=Path, help="archive of one image (default: the images built here)"
    )
    parser.add_argument("--name", help="name of the image with its tag (default: the archive's name)")
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
