"""Waiting for a condition."""

import time

WAIT_TIMEOUT_SECONDS = 240
"""Seconds until a test stops waiting. Never what a test measures."""


def wait_until(condition, condition_name):
    deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.1)
    raise AssertionError(f"waited in vain for {condition_name}")
