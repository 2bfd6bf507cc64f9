"""The Dockerfiles: for those who build one image with Docker or buildah. The files come from the same definition as a release's."""

import json
from pathlib import Path
from typing import Final

from tools.images.definition import REBALANCE, SPINDLE, USER, Definition

ROOT: Final = Path(__file__).resolve().parents[2]

_TEXT: Final = """\
# Generated from tools/images/definition.py by `make generate`. Build it from the top of the repository:
#   docker build -f {folder}/Dockerfile -t {name} .
# {title}. The first stage needs Debian and Python 3.11. It assembles the
# image from packages of Debian and Python wheels, all pinned
# by check sum.
ARG BUILD=python:3.11-bookworm
FROM ${{BUILD}} AS files
ARG TARGETARCH=
COPY . /source
RUN cd /source && tools/setup.sh && .venv/bin/python -m tools.images {name} /files --architecture "${{TARGETARCH}}"

FROM scratch
COPY --from=files /files /
ENV {environment}
USER {user}:{user}
{process}
"""


def dockerfile(definition: Definition, folder: str) -> str:
    """The Dockerfile of an image; ``folder`` is the one that has it."""
    process = [f"ENTRYPOINT {json.dumps(definition.entrypoint)}"] if definition.entrypoint else []
    return _TEXT.format(
        folder=folder,
        name=definition.name,
        title=definition.title,
        environment=" \\\n    ".join(definition.environment),
        user=USER,
        process="\n".join([*process, f"CMD {json.dumps(definition.command)}"]),
    )


def dockerfiles() -> dict[Path, str]:
    """Both Dockerfiles, by path."""
    places = {"operator": SPINDLE, "rebalance": REBALANCE}
    return {ROOT / folder / "Dockerfile": dockerfile(of, folder) for folder, of in places.items()}
