"""The errors that services raise. The APIs, pages and commands each translate them into their own form."""

from typing import Any


class Problem(Exception):
    """An error that the caller can correct.

    `message` is the text to show, `fields` maps field names to lists of messages, and `reason` is the machine-readable
    code that clients branch on (ERR-03). `extra` has further top-level keys of the answer. `status` is the
    HTTP status; `chosen` is False for a plain Problem without one, and the operators' API then answers differently.
    """

    status = 400

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        status: Any = None,  # an int; `Any` because callers unpack dictionaries of fields
        extra: Any = None,
        **fields: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.chosen = status is not None or type(self) is not Problem
        self.status = status or self.status
        self.fields = {name: [text] if isinstance(text, str) else list(text) for name, text in fields.items()}
        self.extra = extra or {}


class Unauthenticated(Problem):
    status = 401


class Forbidden(Problem):
    status = 403


class NotFound(Problem):
    """The resource does not exist, or belongs to another account."""

    status = 404


class Conflict(Problem):
    status = 409


class Invalid(Problem):
    status = 422


class ConfirmationRequired(Problem):
    """The page must ask first. The message is the question."""

    status = 428


class Unavailable(Problem):
    status = 503


class PartlyRefused(Problem):
    """Some of what was asked for was refused, and the rest was done: the request's changes are saved all the same."""


class TooMany(Problem):
    """A rate limit is exceeded; the next attempt is allowed in `seconds`."""

    status = 429

    def __init__(self, message: str, *, seconds: float, **options: Any) -> None:
        super().__init__(message, **options)
        self.seconds = seconds
