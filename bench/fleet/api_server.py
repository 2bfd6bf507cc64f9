"""A stand-in for the API server of a large cluster: it lists the objects of the tests' model, and reports no changes.

.venv/bin/python -m bench.fleet.api_server BROKERS PORT
"""

import asyncio
import hashlib
import json
import re
import sys
from typing import Any

from aiohttp import web

from bench.fleet.passes import empty
from spindle.api import names
from spindle_operator.kinds import KAFKA_REBALANCE, KINDS, Kind
from spindle_operator.observe import LOOKED_AT

_MODEL = 100  # brokers of the model's world
_CONTROLLERS = 9000  # their ids, and higher ones
_NUMBER = re.compile(r"(?<=node)[0-9]+|(?<=demo-)[0-9]+|(?<=broker-)[0-9]+")
_RANDOM = re.compile(r'(?<=")(?!uid-)(?=[a-z0-9_-]*[A-Z])[A-Za-z0-9_-]{22}(?=\\*")')
_MANAGED = 0.4  # of an object's bytes are managedFields, which the model's objects lack


def _objects(brokers: int) -> dict[Kind, list[str]]:
    """The objects of a cluster that has come up, as JSON: those of up to a hundred brokers, and renumbered copies of all of them: more brokers come in hundreds."""
    found: dict[Kind, list[str]] = {kind: [] for kind in (*LOOKED_AT, KAFKA_REBALANCE)}
    world = empty(min(brokers, _MODEL))
    shared = {world.get("ConfigMap", names.identity_map("demo"))["data"]["clusterId"]}
    for (kind, name), obj in world.objects.items():
        if (of := KINDS.get(kind)) not in found:
            continue
        fields: dict[str, Any] = {f"f:field{i}": {} for i in range(int(len(json.dumps(obj)) * _MANAGED / 18))}
        meta = {**obj["metadata"], "managedFields": [{"manager": "spindle", "fieldsV1": fields}]}
        text = json.dumps({**obj, "metadata": meta})
        of_broker = (numbers := _NUMBER.findall(name)) and int(numbers[0]) < _CONTROLLERS
        copies = max(1, brokers // _MODEL) if of_broker else 1
        found[of] += [_copy(text, number, shared) if number else text for number in range(copies)]
    return found


def _copy(text: str, number: int, shared: set[str]) -> str:
    """An object of a broker as that of another, with other random ids."""

    def shifted(match: re.Match[str]) -> str:
        found = int(match[0])
        return str(found + number * _MODEL if found < _CONTROLLERS else found)

    def other(match: re.Match[str]) -> str:
        found = match[0]
        return found if found in shared else hashlib.sha256(f"{number} {found}".encode()).hexdigest()[:22]

    return _RANDOM.sub(other, _NUMBER.sub(shifted, text))


def serve(brokers: int, port: int) -> None:
    """Answer lists page by page, and keep watches open."""
    found = {kind.plural: objects for kind, objects in _objects(brokers).items()}
    for kind, objects in found.items():
        sys.stdout.write(f"  {len(objects)} {kind}, {sum(map(len, objects)) / 1e6:.1f} MB\n")
    sys.stdout.flush()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(600)
            return response
        objects = found[request.path.rsplit("/", 1)[-1]]
        start = int(request.query.get("continue", 0))
        end = start + int(request.query["limit"])
        more = f',"continue":"{end}"' if end < len(objects) else ""
        head = f'{{"metadata":{{"resourceVersion":"100"{more}}},"items":['
        return web.Response(text=head + ",".join(objects[start:end]) + "]}", content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=lambda *_: None)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
