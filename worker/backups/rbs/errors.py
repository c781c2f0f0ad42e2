"""Errors of a remote backup server. Their texts are for operators."""

import contextlib
from collections.abc import Iterator

from worker.backups.errors import TargetFailed

MAX_SERVER_TEXT = 200


class ServerFailed(TargetFailed):
    """A request failed. `status` is the server's, None without an answer."""

    def __init__(self, action: str, reason: str, status: int | None = None) -> None:
        super().__init__(f"The backup server failed at {action}: {reason}")
        self.reason, self.status = reason, status


class ServerUnanswered(ServerFailed):
    """A request was sent, and the server did not answer it."""

    is_unanswered = True


class FingerprintMismatch(ServerFailed):
    """The server presented another certificate than the pinned one. Nothing was sent to it."""

    def __init__(self, presented: str) -> None:
        super().__init__("the connection", f"its certificate has another fingerprint ({presented})")


def make_refusal(action: str, status: int, body: bytes) -> ServerFailed:
    """Return the error of an answer that is not a success, with the text that the server sent."""
    text = "".join(character for character in body.decode(errors="replace") if character.isprintable())
    return ServerFailed(action, f"{status} {text[:MAX_SERVER_TEXT]}".strip(), status)


@contextlib.contextmanager
def expect_shape(action: str) -> Iterator[None]:
    """Raise `ServerFailed` when what the server answered has another shape than the code in the block expects."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServerFailed(action, "its answer is not as expected") from error
