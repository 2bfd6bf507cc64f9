"""``python -m tools.images NAME FOLDER`` writes the files of an image into a folder, for a Dockerfile that copies them."""

import argparse
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.cluster.build import BuildError
from e2e.cluster.console import say
from e2e.cluster.debian import MissingProgramError
from tools.images.assemble import host_architecture
from tools.images.debian import LockError
from tools.images.definition import ARCHITECTURES, DEFINITIONS
from tools.images.image import Builder, Fresh


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="images", description="Write the files of an image into a folder.")
    parser.add_argument("name", choices=sorted(DEFINITIONS))
    parser.add_argument("folder", type=Path, help="is created if it does not exist")
    parser.add_argument(
        "--architecture", default="", choices=("", *ARCHITECTURES), help="default: this machine's"
    )
    options = parser.parse_args(arguments)
    try:
        with TemporaryDirectory() as work:
            builder = Builder(store=Fresh(Path(work)), exact=True, say=say)
            architecture = options.architecture or host_architecture()
            for layer in builder.layers(DEFINITIONS[options.name], architecture):
                options.folder.mkdir(parents=True, exist_ok=True)
                with tarfile.open(layer) as archive:
                    # Links are absolute, into the image; so the filters for archives of others do not fit.
                    archive.extractall(options.folder, filter="fully_trusted")  # noqa: S202 - written above
    except (BuildError, LockError, MissingProgramError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
