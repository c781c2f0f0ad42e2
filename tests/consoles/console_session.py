"""An open console, and its password."""

import queue

PASSWORD = "onceonly"


class ConsoleSession:
    """An open console: its stream, the client `viewer`, and the stream's events."""

    def __init__(self, stream, viewer):
        self.stream, self.viewer, self.events = stream, viewer, queue.Queue()
        stream.on_opened = lambda _: self.events.put("opened")
        stream.on_closed = lambda _: self.events.put("ended")

    def wait_for_event(self, event):
        assert self.events.get(timeout=20) == event
