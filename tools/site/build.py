"""One run of the generator, and what comes after it."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.site.check import complaints
from tools.site.pages import CONFIG, prepare

# The generator lets pages load this from another server, for the search in a site that was opened as a file.
_THEIR_WORKER: Final = "https://unpkg.com/iframe-worker/shim"
_WORKER: Final = "assets/javascripts/worker.js"


def build(folder: Path) -> int:
    """Build the site in ``site`` below a folder, from pages in ``pages`` beside it.

    Args:
        folder: what is in these two is replaced.

    Returns:
        The exit code: not 0 if a link leads nowhere, or anything else is wrong with a page.
    """
    (folder / "pages").mkdir(parents=True, exist_ok=True)
    (folder / CONFIG.name).write_text(prepare(folder / "pages"))
    return generate(folder)


def generate(folder: Path) -> int:
    """As ``build``, from pages and a configuration that are there.

    Args:
        folder: as in ``build``.
    """
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    program = Path(sys.executable).with_name("zensical")
    command = (program, "build", "--strict", "--clean", "--config-file", folder / CONFIG.name)
    if code := subprocess.call(command, cwd=folder):
        return code
    _use_our_worker(site)
    found = complaints(site)
    print(*(f"site: {each}\n" for each in found), sep="", end="", file=sys.stderr)
    return 1 if found else 0


def _use_our_worker(site: Path) -> None:
    shutil.copy(Path(__file__).with_name("worker.js"), site / _WORKER)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(page.read_text().replace(_THEIR_WORKER, f"{up}{_WORKER}"))
