"""Builds the documentation as a site in ``build/site``: ``make site``."""

import sys

from tools.site.build import build
from tools.site.pages import ROOT

if __name__ == "__main__":
    code = build(ROOT / "build")
    if not code:
        print(f"site: {ROOT / 'build/site/index.html'}")
    sys.exit(code)
