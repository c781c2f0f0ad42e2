"""A limit of bytes per second."""

import time


class RateLimit:
    """For one thread. Time in which nothing was transferred is not made up for."""

    def __init__(self, bytes_per_second: int) -> None:
        """0 is unlimited."""
        self.bytes_per_second = bytes_per_second
        self.free_at = 0.0

    def wait(self, size: int) -> None:
        """Wait until `size` more bytes may be transferred."""
        if not self.bytes_per_second:
            return
        now = time.monotonic()
        self.free_at = max(self.free_at, now) + size / self.bytes_per_second
        time.sleep(self.free_at - now)
