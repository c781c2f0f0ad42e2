"""A customer who opens consoles at the pages of an installation, without a browser."""

import json
import socket
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

from tests.support.console_client import ConsoleClient, WebSocketClosed


class ConsoleUser:
    def __init__(self, installation, email, password):
        self.installation = installation
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.post("/sign-in", email=email, password=password)

    def post(self, path, accept="text/html", **form):
        """Return the address after redirects, and the answer's body."""
        headers = {"Sec-Fetch-Site": "same-origin", "Accept": accept}
        data = urllib.parse.urlencode(form).encode()
        with self.browser.open(
            urllib.request.Request(self.installation.url + path, data, headers), timeout=60
        ) as answer:
            return answer.geturl(), answer.read()

    def create_session(self, instance_id):
        """Create a session of the screen. Return what its page gets: the path of the WebSocket and the password."""
        address, _ = self.post(f"/instances/{instance_id}/console")
        page = urllib.parse.urlsplit(address).path
        return json.loads(self.post(f"{page}/again", "application/json")[1])

    def open_screen(self, console_session):
        """Return the screen after signing in, and its title, which is QEMU's name of the machine."""
        viewer = self.connect(console_session["socket"], "binary")
        assert viewer.sign_in(console_session["password"]) is None
        length = int.from_bytes(viewer.read(24)[20:], "big")
        return viewer, viewer.read(length).decode()

    def find_refusal(self, console_session):
        """Return the sentence with which the screen is refused, or None when it opens."""
        try:
            self.open_screen(console_session)[0].connection.close()
        except WebSocketClosed as closed:
            return closed.reason
        return None

    def connect(self, path, protocol=""):
        host, _, port = self.installation.bind.partition(":")
        viewer = ConsoleClient(socket.create_connection((host, int(port)), 60), protocol)
        assert viewer.request(path, host=self.installation.bind) == 101
        return viewer


class Shell:
    """A shell whose input and output are those of a terminal."""

    def __init__(self, viewer):
        self.viewer, self.output = viewer, ""
        self.run("true")

    def run(self, command):
        """Return what the command prints."""
        self.viewer.send(f"echo begin''s; {command}; echo end''s\n".encode())
        while "ends" not in self.output:
            self.output += self.viewer.receive()[1].decode()
        before, _, self.output = self.output.partition("ends")
        return before.rpartition("begins")[2].strip()


def is_screen_live(viewer):
    """Return whether the screen answers a request for its top left pixel."""
    viewer.send(b"\2\0\0\1\0\0\0\0")  # uncompressed
    viewer.send(b"\3\0\0\0\0\0\0\1\0\1")
    return viewer.read(1) == b"\0" and len(viewer.read(3 + 12 + 4)) == 19
