"""Responses of the Kubernetes API server."""

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


class ApiError(Exception):
    """The API server refused, or could not be reached.

    Attributes:
        status: HTTP status; 0 if there was no response.
        reason: Kubernetes' CamelCase reason (``Conflict``, ``AlreadyExists``), or the failure's name.
        message: the server's error message.
        fields: paths of the rejected fields.
    """

    def __init__(self, status: int, reason: str, message: str, fields: Iterable[str] = ()) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.fields = frozenset(fields)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def gone(self) -> bool:
        """The object does not exist."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """A precondition did not hold, or the object exists already.

        A patch for another UID, without a resourceVersion, is rejected with "the field is immutable".
        """
        return self.status == 409 or (self.status == 422 and "metadata.uid" in self.fields)

    @property
    def forbidden(self) -> bool:
        """Not authenticated or not allowed."""
        return self.status in (401, 403)


def no_answer(error: Exception, text: str = "no response from the API server") -> ApiError:
    """The error for a request without a response."""
    return ApiError(0, type(error).__name__, str(error) or text)


def read_answer(status: int, phrase: str, raw: bytes) -> Json:
    """Body of a successful response. A proxy in between may respond with something that is not JSON.

    Raises:
        ApiError: the server refused.
    """
    try:
        body = json.loads(raw) if raw else {}
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    if status < 400:
        return body
    causes = (body.get("details") or {}).get("causes") or ()
    raise ApiError(
        status,
        str(body.get("reason") or phrase),
        str(body.get("message") or raw[:200].decode("utf-8", "replace")),
        (str(cause.get("field")) for cause in causes),
    )
