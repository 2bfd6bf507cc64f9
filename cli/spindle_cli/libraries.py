"""Large libraries that not every command needs. Each is imported when it is first used: their imports take longer than most commands.

Import them from here, and write types of them in quotes: ``from spindle_cli.libraries import kafka``.
"""

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    import kafka
    import kafka.admin
    import kafka.errors
    import kubernetes
    import urllib3.exceptions
    import yaml

    from spindle_cli.disk_map import server as map_server
else:

    def _imported_on_use(name: str) -> "ModuleType":
        """A module whose code runs when an attribute of it is first read."""
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    kafka = _imported_on_use("kafka")
    kubernetes = _imported_on_use("kubernetes")
    urllib3 = _imported_on_use("urllib3")
    yaml = _imported_on_use("yaml")
    map_server = _imported_on_use("spindle_cli.disk_map.server")  # imports aiohttp

__all__ = ["kafka", "kubernetes", "map_server", "urllib3", "yaml"]
