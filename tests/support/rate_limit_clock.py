"""The clock of the rate limits, which only tests advance."""

from panel.core import context
from panel.ratelimit import windows


class FakeClock:
    """The clock of the rate limits. It advances only on request, so no window ends within a test."""

    START_SECONDS = 6e8 + 10
    """Ten seconds after the start of a minute."""
    now = START_SECONDS

    def reset(self):
        self.now = self.START_SECONDS

    def time(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


fake_clock = FakeClock()


def connect_rate_limits(redis_url):
    """Reset the rate limits. They count in this Redis, or with the fake clock in this process when the URL is empty."""
    limits = context.current().rate_limits = windows.RateLimits(redis_url)
    limits.local.now = fake_clock.time
