"""What the host asks for about this sandbox: the entries of its log, and its load.

A request is `{"report": {"after": number, "wait": seconds, "metrics": bool}}`, on the stream of the identity. Entries
up to `after` have arrived and are forgotten. The answer is given when there are entries, or after that time.
"""

from typing import Any

from .log_entries import LogEntries
from .metrics import Metrics

MAX_WAIT_SECONDS = 60.0
MAX_ENTRIES_PER_REPORT, MAX_ENTRY_BYTES_PER_REPORT = 100, 192 * 1024


class Reporter:
    def __init__(self) -> None:
        self.entries = LogEntries()
        self.metrics = Metrics()

    async def build_report(self, request: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises ValueError."""
        if not isinstance(request, dict):
            raise ValueError("the request for a report is not an object")
        after, seconds = request.get("after", 0), request.get("wait", 0)
        if not isinstance(after, int) or not isinstance(seconds, int | float):
            raise ValueError("the request for a report is not valid")
        self.entries.forget_until(after)
        await self.entries.wait(max(0.0, min(float(seconds), MAX_WAIT_SECONDS)))
        report: dict[str, Any] = {
            "entries": self.entries.list_first(MAX_ENTRIES_PER_REPORT, MAX_ENTRY_BYTES_PER_REPORT)
        }
        if request.get("metrics"):
            report["metrics"] = await self.metrics.measure()
        return report
