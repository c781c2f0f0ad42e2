"""The rate of a transfer."""

import time


class TransferRate:
    """The mean rate since the transfer began. Another transfer begins when fewer bytes are done than before."""

    def __init__(self) -> None:
        self.begun_at = 0.0
        self.first_bytes: int | None = None
        self.last_bytes = 0

    def update(self, done: int) -> int | None:
        """Return the bytes per second up to now, or None before anything was transferred."""
        if self.first_bytes is None or done < self.last_bytes:
            self.begun_at, self.first_bytes = time.monotonic(), done
        self.last_bytes = done
        seconds = time.monotonic() - self.begun_at
        return round((done - self.first_bytes) / seconds) if seconds > 0 and done > self.first_bytes else None
