"""Waiting for a condition."""

import time

WAIT_TIMEOUT_SECONDS = 240
"""Seconds until a test stops waiting. Never what a test measures."""
MAX_DELAY_SECONDS = 0.1


def wait_until(condition, condition_name):
    deadline, delay = time.monotonic() + WAIT_TIMEOUT_SECONDS, 0.01
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(delay)
        delay = min(2 * delay, MAX_DELAY_SECONDS)
    raise AssertionError(f"waited in vain for {condition_name}")
