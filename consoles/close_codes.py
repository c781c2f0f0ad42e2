"""Why a console ended: the WebSocket's close code, a word for the history, and a sentence for the user."""

from dataclasses import dataclass, replace

MAX_CLOSE_REASON_BYTES = 123
"""Maximum bytes of a sentence in a close frame."""


@dataclass(frozen=True)
class CloseReason:
    code: int
    word: str
    sentence: str

    def with_message(self, sentence):
        return replace(self, sentence=sentence)

    @property
    def reason(self):
        """Return the sentence, cut to the size of a close frame but never within a character."""
        return self.sentence.encode()[:MAX_CLOSE_REASON_BYTES].decode(errors="ignore")


CLIENT_CLOSED = CloseReason(1000, "left", "The browser closed the console.")
CLIENT_LOST = CloseReason(1006, "vanished", "The browser went away without a word.")
FINISHED = CloseReason(1000, "finished", "The machine closed the console.")
UNUSED = CloseReason(1000, "unused", "The console was closed because nobody used it for a while.")
EXPIRED = CloseReason(1000, "expired", "The console reached its longest duration. Open it again.")
RESTARTING = CloseReason(1001, "restarting", "The panel is being restarted. Open the console again in a moment.")
CLOSED = CloseReason(1008, "closed", "The console was closed by the panel.")
BROKEN = CloseReason(1002, "broken", "The browser did not keep to the protocol.")
TOO_BIG = CloseReason(1009, "too_big", "The browser sent more at once than a console takes.")
NOT_ADMITTED = CloseReason(1008, "wrong_password", "The password of the console is wrong.")
NO_PASSWORD = CloseReason(1008, "no_password", "The console was closed because no password was given.")
UNREACHABLE = CloseReason(1011, "unreachable", "The machine's host does not answer.")
REFUSED = CloseReason(1011, "refused", "The machine does not accept the console.")
LOST = CloseReason(1011, "lost", "The connection to the machine was lost.")
STUCK = CloseReason(1011, "stuck", "The machine takes no input.")
FAILED = CloseReason(1011, "failed", "The console failed because of a fault in the panel.")
