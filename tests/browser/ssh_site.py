"""The page of a shell around a machine of ours: a real web server, the real console process, and a panel that answers
what a test wants."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import tempfile
import termios
import threading
from pathlib import Path

from flask import Blueprint, render_template, request
from werkzeug.serving import WSGIRequestHandler, make_server

from consoles import fd_passing
from consoles.event_loop import EventLoop
from consoles.server import ConsoleServer
from consoles.ssh_shell import host_key_fingerprint
from panel.app import create_app
from panel.core import context
from panel.core.config import Config
from panel.ratelimit import windows
from tests.support import ssh_guest as guests


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        """Nobody reads them."""


class SshSite:
    """A web server for all tests; each begins with a machine and a console process of its own.

    `known` is the host key that the machine must show, or None; `refusal` what opening answers instead of a session:
    (status, message, reason); `openings` counts them."""

    def __init__(self, directory):
        self.path = Path(tempfile.mkdtemp()) / "consoles.sock"  # short enough for a socket
        app = create_app(Config(data_dir=directory, secret_key="test", redis_url="redis://"))
        context.current().rate_limits = windows.RateLimits("")  # of this process
        app.register_blueprint(self.pages())
        self.server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.port}/stage"

    def close(self):
        self.server.shutdown()
        self.path.parent.rmdir()

    def begin(self):
        self.guest = guests.SshGuest(run_bash)
        self.known = self.shown = self.refusal = None
        self.openings, self.prepared = 0, threading.Event()
        self.prepared.set()
        self.carry()

    def carry(self):
        self.consoles = ConsoleServer(self.path, event_loop=EventLoop(goodbye=1), report=self.on_report)
        self.consoles.start()

    def end(self):
        self.consoles.stop(0.1)
        self.guest.close()

    def on_report(self, facts):
        if facts["event"] == "ended" and facts["reason"] == "host_key_changed":
            self.shown = facts["host_key"]

    def drop(self):
        """The connection breaks without a word, as when a network ends."""
        for line in self.consoles.now():
            line.event_loop.call(line.connection.shutdown, 2)

    def pages(self):
        bp = Blueprint("stage", __name__)

        @bp.get("/stage")
        def page():
            links = {"opening": "/stage/opening", "host_key": "/stage/host-key", "back": "/stage/back"}
            return render_template("console/ssh_shell.html", name="web-1", **links)

        @bp.post("/stage/opening")
        def opening():
            self.openings += 1
            self.prepared.wait(20)
            if self.refusal:
                status, message, reason = self.refusal
                return {"message": message, "reason": reason}, status
            return {"socket": f"/stage/socket/{self.openings}", "session_id": str(self.openings)}

        @bp.route("/stage/socket/<number>", websocket=True)
        def socket(number):
            fd_passing.ensure_websocket_handshake(request.environ)
            fd_passing.ensure_same_origin(request.environ, self.url)
            target = {"host": self.guest.host, "port": self.guest.port, "user": "root"}
            target |= {"private_key": self.guest.user_key, "host_key": self.known}
            fd_passing.pass_socket(request.environ, self.path, {"kind": "shell", "id": number, "target": target})
            return fd_passing.SocketPassed()

        @bp.get("/stage/host-key")
        def host_key():
            return {"known": fingerprint_of(self.known), "shown": fingerprint_of(self.shown)}

        @bp.post("/stage/host-key")
        def trust():
            if request.form["shown"] != fingerprint_of(self.shown):
                return {"message": "The instance presented another key in the meantime.", "reason": None}, 409
            self.known = self.shown
            return {"message": "The key is accepted."}

        return bp


def fingerprint_of(key):
    return key and host_key_fingerprint(key)


def run_bash(channel, door):
    """A shell of this machine on a terminal of its own."""
    parent, child = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "guest# "}
    # When the tests run as a background job, both signals are ignored, and Control+C would end nothing.
    command = ["env", "--default-signal=INT,QUIT", "bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command], stdin=child, stdout=child, stderr=child, env=environment, cwd="/"
    )
    os.close(child)
    size = None
    try:
        while True:
            if door.sizes[-1] != size:
                size = door.sizes[-1]
                fcntl.ioctl(parent, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            ready, _, _ = select.select([parent, channel], [], [], 0.05)
            if channel in ready:
                typed = channel.recv(32768)
                if not typed:
                    return None
                os.write(parent, typed)
            if parent in ready:
                channel.sendall(os.read(parent, 32768))
    except OSError:  # the shell ended
        return shell.wait(5)
    finally:
        os.close(parent)
        shell.kill()
        shell.wait()
