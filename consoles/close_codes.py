"""Why a console ended: the WebSocket's close code, a name for programs and the history, and a message for the user."""

from dataclasses import dataclass, replace

from panel.core.messages import message

MAX_CLOSE_REASON_BYTES = 123
"""Maximum bytes of the text in a close frame."""


@dataclass(frozen=True)
class CloseReason:
    code: int
    name: str
    message: str

    def with_message(self, message):
        return replace(self, message=message)

    @property
    def frame_text(self):
        """Return the message, cut to the size of a close frame but never within a character."""
        return self.message.encode()[:MAX_CLOSE_REASON_BYTES].decode(errors="ignore")


CLIENT_CLOSED = CloseReason(1000, "left", message("The browser closed the console."))
CLIENT_LOST = CloseReason(1006, "vanished", message("The connection to the browser was lost."))
FINISHED = CloseReason(1000, "finished", message("The instance closed the console."))
UNUSED = CloseReason(1000, "unused", message("The console was closed because it was not used for a while."))
EXPIRED = CloseReason(1000, "expired", message("The console reached its maximum duration. Open it again."))
RESTARTING = CloseReason(
    1001, "restarting", message("The panel is being restarted. Open the console again in a moment.")
)
CLOSED = CloseReason(1008, "closed", message("The console was closed by the panel."))
BROKEN = CloseReason(1002, "broken", message("The browser violated the protocol."))
TOO_BIG = CloseReason(1009, "too_big", message("The browser sent too much data at once."))
NOT_ADMITTED = CloseReason(1008, "wrong_password", message("The password of the console is wrong."))
NO_PASSWORD = CloseReason(1008, "no_password", message("The console was closed because no password was given."))
UNREACHABLE = CloseReason(1011, "unreachable", message("The hypervisor does not respond."))
REFUSED = CloseReason(1011, "refused", message("The instance does not accept the console."))
LOST = CloseReason(1011, "lost", message("The connection to the instance was lost."))
STUCK = CloseReason(1011, "stuck", message("The instance does not accept input."))
FAILED = CloseReason(1011, "failed", message("The console failed because of a fault in the panel."))
