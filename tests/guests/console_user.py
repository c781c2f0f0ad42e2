"""A customer at the pages of an installation, and the consoles that are opened there, without a browser."""

import json
import socket
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

from tests.support.console_client import ConsoleClient, WebSocketClosed


class ConsoleUser:
    def __init__(self, installation, email, password):
        self.at = installation
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.post("/sign-in", email=email, password=password)

    def post(self, path, accept="text/html", **form):
        """The address that it led to, and what was there."""
        headers = {"Sec-Fetch-Site": "same-origin", "Accept": accept}
        data = urllib.parse.urlencode(form).encode()
        with self.browser.open(urllib.request.Request(self.at.url + path, data, headers), timeout=60) as answer:
            return answer.geturl(), answer.read()

    def mint(self, instance_id):
        """A session of the screen: what its page knows, the path of its WebSocket and the password."""
        address, _ = self.post(f"/instances/{instance_id}/console")
        page = urllib.parse.urlsplit(address).path
        return json.loads(self.post(f"{page}/again", "application/json")[1])

    def screen(self, minted):
        """The screen after both sides have signed in, and its title: QEMU puts the machine's name there."""
        seat = self.connect(minted["socket"], "binary")
        assert seat.sign_in(minted["password"]) is None
        length = int.from_bytes(seat.read(24)[20:], "big")
        return seat, seat.read(length).decode()

    def told(self, minted):
        """The sentence with which the screen is refused; None when it opens."""
        try:
            self.screen(minted)[0].connection.close()
        except WebSocketClosed as closed:
            return closed.reason
        return None

    def connect(self, path, protocol=""):
        host, _, port = self.at.bind.partition(":")
        seat = ConsoleClient(socket.create_connection((host, int(port)), 60), protocol)
        assert seat.request(path, host=self.at.bind) == 101
        return seat


class Shell:
    """A plain terminal: what is sent is typed."""

    def __init__(self, seat):
        self.seat, self.said = seat, ""
        self.run("true")

    def run(self, command):
        """What the command prints."""
        self.seat.send(f"echo begin''s; {command}; echo end''s\n".encode())
        while "ends" not in self.said:
            self.said += self.seat.receive()[1].decode()
        before, _, self.said = self.said.partition("ends")
        return before.rpartition("begins")[2].strip()


def is_screen_live(seat):
    """Whether the screen still answers: it is asked for its top left pixel."""
    seat.send(b"\2\0\0\1\0\0\0\0")  # uncompressed
    seat.send(b"\3\0\0\0\0\0\0\1\0\1")
    return seat.read(1) == b"\0" and len(seat.read(3 + 12 + 4)) == 19
