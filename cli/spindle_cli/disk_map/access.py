"""Who may read the map: requests from this machine's browser that bring the session's cookie. Pure, except that a token is spent once."""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_BYTES: Final = 32
_METHODS: Final = frozenset({"GET", "HEAD"})
_USED: Final = (
    "This address was used before, or is wrong. Stop the command and start it again: kubectl spindle ui"
)

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Asked:
    """What decides about a request; each header is empty if the request does not have it.

    Attributes:
        token: of the URL.
        site: header Sec-Fetch-Site.
    """

    method: str
    host: str
    origin: str = ""
    site: str = ""
    cookie: str = ""
    token: str = ""


@dataclass
class Access:
    """Secrets of one run of the command.

    Attributes:
        port: port on loopback that the page is served on.
        token: in the URL that the command prints; valid once.
        session: value of the cookie that the token is exchanged for.
    """

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)
    _spent: bool = False

    @property
    def cookie(self) -> str:
        """Name of the cookie. Browsers send a cookie to all ports of a host, so the name has the port."""
        return f"spindle-map-{self.port}"

    @property
    def url(self) -> str:
        """The address for the browser."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def refusal(self, asked: Asked) -> str | None:
        """Why a request is refused; None if it is not.

        A page of another site cannot read the map: its requests have another Host (DNS rebinding), another Origin, or no cookie.
        """
        if asked.method not in _METHODS:
            return "The map is read-only."
        if asked.host not in self._hosts():
            return "Wrong Host header: the map is served on 127.0.0.1 only."
        if asked.origin and asked.origin not in {f"http://{host}" for host in self._hosts()}:
            return "Wrong Origin header."
        if asked.site not in ("", "none", "same-origin") and not asked.token:
            return "Another site asks for this page."
        if asked.token:
            return None if self._is_token(asked.token) else _USED
        return (
            None
            if _same(asked.cookie, self.session)
            else "No valid cookie: open the address that the command printed."
        )

    def spend(self) -> None:
        """The token was exchanged for the cookie."""
        self._spent = True

    def _is_token(self, token: str) -> bool:
        return not self._spent and _same(token, self.token)

    def _hosts(self) -> tuple[str, str]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
