"""Cheap certificates: like `spindle_operator.ca`, but a certificate is a line of JSON between PEM markers.

A run creates some twenty of them and parses them in each pass; real ones would cost more than all decisions together, and data does not depend
on them.
"""

import datetime as dt
import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from spindle.model.agent_access import Request
from spindle.model.snapshot import Certificate
from spindle_operator import ca
from tests.sim.loop import Clock

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----\n(.*?)\n-----END CERTIFICATE-----\n?", re.DOTALL)
_serial = [0]


def reset() -> None:
    """Start of a run."""
    _serial[0] = 0


def _pem(**facts: Any) -> bytes:
    _serial[0] += 1
    text = json.dumps({"serial": _serial[0], **facts}, sort_keys=True).encode()
    return b"-----BEGIN CERTIFICATE-----\n" + text + b"\n-----END CERTIFICATE-----\n"


def _blocks(pem: bytes) -> list[bytes]:
    return _BLOCK.findall(pem)


def fingerprints(pem: bytes) -> tuple[str, ...]:
    found = tuple(sha256(block).hexdigest() for block in _blocks(pem))
    if not found:
        raise ValueError("no certificate")
    return found


def make_ca(common_name: str, *, days: int = 3650, now: dt.datetime | None = None) -> ca.Pem:
    issued = Clock.now()
    return ca.Pem(_pem(cn=common_name, issuer="", issued=issued, end=issued + 86400 * days), b"key")


def issue(
    authority: ca.Pem,
    common_name: str,
    dns_names: Sequence[str] = (),
    days: int = 365,
    *,
    trusted: Sequence[bytes] = (),
    now: dt.datetime | None = None,
) -> dict[str, bytes]:
    issued = Clock.now()
    (signer,) = fingerprints(authority.cert)[:1]
    cert = _pem(cn=common_name, dns=list(dns_names), issuer=signer, issued=issued, end=issued + 86400 * days)
    return {
        "ca.crt": b"".join([authority.cert, *trusted]),
        "tls.crt": cert,
        "tls.key": b"key",
        "keystore.pem": b"key" + cert,
    }


def read_request(pem: bytes, common_name: str) -> Request:
    if json.loads(pem)["cn"] != common_name:
        raise ValueError("it asks for another name")
    return Request(pem.decode(), sha256(pem).hexdigest())


def grant(
    authority: ca.Pem, pem: bytes, common_name: str, days: int, now: dt.datetime | None = None
) -> bytes:
    issued = Clock.now()
    (signer,) = fingerprints(authority.cert)[:1]
    key = read_request(pem, common_name).key
    return _pem(cn=common_name, issuer=signer, issued=issued, end=issued + 86400 * days, key=key)


def client_properties(data: Any, bootstrap: str) -> bytes:
    return f"bootstrap.servers={bootstrap}\n".encode()


def authority_problem(authority: ca.Pem, now: dt.datetime | None = None) -> str:
    return "" if _blocks(authority.cert) else "It cannot be read."


def describe(cert_pem: bytes, ca_pem: bytes | None = None) -> Certificate:
    blocks = _blocks(cert_pem)
    if not blocks:
        raise ValueError("no certificate")
    facts = json.loads(blocks[0])
    own = sha256(blocks[0]).hexdigest()
    known = {own, *(fingerprints(ca_pem) if ca_pem and _blocks(ca_pem) else ())}
    issuer = facts["issuer"] or own
    return Certificate(
        common_name=facts["cn"],
        dns_names=tuple(facts.get("dns", ())),
        issuer=issuer if issuer in known else "",
        fingerprint=own,
        not_after=facts["end"],
        issued=facts["issued"],
        servers=bool(facts.get("dns")),
        key=facts.get("key", ""),
    )


def patches() -> list[tuple[Any, str, Any]]:
    """The parts of `spindle_operator.ca` that are replaced."""
    return [
        (ca, name, globals()[name])
        for name in (
            "make_ca",
            "issue",
            "read_request",
            "grant",
            "client_properties",
            "authority_problem",
            "describe",
            "fingerprints",
        )
    ]
