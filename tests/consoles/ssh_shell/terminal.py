"""The terminal of the shell page, and programs of the guest's end."""

import json
import random
import threading
import time

from tests.support import console_client
from tests.support.console_client import TEXT

RANDOM_MEBIBYTE = random.Random(5).randbytes(1 << 20)


class TerminalClient(console_client.ConsoleClient):
    """The page's terminal. Collects output in `stream` and control messages in `messages`, and acknowledges output if
    `acknowledges_output`."""

    def __init__(self, connection, protocol):
        super().__init__(connection, protocol)
        self.messages, self.acknowledges_output = [], True

    def receive(self):
        opcode, payload = super().receive()
        if opcode == TEXT:
            self.messages.append(json.loads(payload))
            return opcode, b""
        if self.acknowledges_output and self.protocol:
            self.send_control(type="seen", bytes=len(payload))
        return opcode, payload

    def send_control(self, **message):
        self.send(json.dumps(message).encode(), TEXT)

    def wait_for_message(self, kind):
        """Return the first control message of this type."""
        while not (messages := [message for message in self.messages if message["type"] == kind]):
            self.receive()
        return messages[0]


def echo(channel, interface):
    while (data := channel.recv(65536)) and data != b"exit\r":
        channel.sendall(data)
    return 7


def flood(channel, interface):
    """Print lines as `yes` does until Ctrl-C, then print ^C."""
    stopped = threading.Event()

    def listen():
        while data := channel.recv(1000):
            if b"\3" in data:
                stopped.set()

    threading.Thread(target=listen, daemon=True).start()
    while not stopped.is_set():
        channel.sendall(b"y\r\n" * 2000)
    channel.sendall(b"^C")
    time.sleep(30)
