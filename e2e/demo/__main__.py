"""``python -m e2e.demo up`` and ``down``; ``make demo`` and ``make demo-down`` call these."""

import argparse
import subprocess
import sys

from e2e.cluster.apiserver import KubectlError
from e2e.cluster.build import BuildError
from e2e.cluster.debian import MissingProgramError
from e2e.cluster.system import CommandError
from e2e.cluster.testbed import TestbedError
from e2e.demo.demo import Demo
from e2e.demo.show import DemoError

_EXPECTED = (
    BuildError,
    CommandError,
    DemoError,
    KubectlError,
    MissingProgramError,
    TestbedError,
    TimeoutError,
    subprocess.CalledProcessError,
)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description=__doc__)
    parser.add_argument("command", choices=("up", "down"))
    asked = parser.parse_args()
    demo = Demo()
    try:
        demo.up() if asked.command == "up" else demo.down()
    except _EXPECTED as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        if asked.command == "up":
            print(
                "demo: run `make demo` again to continue from there, or `make demo-down` to remove everything.",
                file=sys.stderr,
            )
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; run `make demo` again to continue from there.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
