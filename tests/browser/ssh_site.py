"""The shell page with a simulated guest: a real web server, a real console server, and routes that answer as a test
demands."""

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
from consoles.ssh_shell import compute_fingerprint
from panel.app import create_app
from panel.core import context
from panel.core.config import Config
from panel.ratelimit import windows
from tests.support import ssh_guest as guests


class QuietRequestHandler(WSGIRequestHandler):
    def log_request(self, *_):
        """Do not log requests."""


class SshSite:
    """A web server for all tests. Each test starts its own guest and console server.

    `known_host_key` is the key that the guest must present, or None. `refusal` is the answer to opening requests
    instead of a session: (status, message, reason). `openings` counts these requests."""

    def __init__(self, directory):
        self.path = Path(tempfile.mkdtemp()) / "consoles.sock"  # short enough for a socket
        app = create_app(Config(data_dir=directory, secret_key="test", redis_url="redis://"))
        context.current().rate_limits = windows.RateLimits("")  # of this process
        app.register_blueprint(self.make_blueprint())
        self.server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietRequestHandler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.port}/shell"

    def close(self):
        self.server.shutdown()
        self.path.parent.rmdir()

    def start_guest(self):
        self.guest = guests.SshGuest(run_bash)
        self.known_host_key = self.presented_host_key = self.refusal = None
        self.openings, self.prepared = 0, threading.Event()
        self.prepared.set()
        self.start_consoles()

    def start_consoles(self):
        self.consoles = ConsoleServer(
            self.path, event_loop=EventLoop(close_timeout_seconds=1), on_report=self.on_report
        )
        self.consoles.start()

    def stop_guest(self):
        self.consoles.stop(0.1)
        self.guest.close()

    def on_report(self, report):
        if report["event"] == "ended" and report["reason"] == "host_key_changed":
            self.presented_host_key = report["host_key"]

    def drop_connections(self):
        """Shut the connections down without a close frame, as a failed network does."""
        for stream in self.consoles.list_streams():
            stream.event_loop.call_soon(stream.connection.shutdown, 2)

    def make_blueprint(self):
        bp = Blueprint("shell", __name__)

        @bp.get("/shell")
        def page():
            links = {"new_session_url": "/shell/opening", "host_key": "/shell/host-key", "back": "/shell/back"}
            return render_template("console/ssh_shell.html", name="web-1", **links)

        @bp.post("/shell/opening")
        def opening():
            self.openings += 1
            self.prepared.wait(20)
            if self.refusal:
                status, message, reason = self.refusal
                return {"message": message, "reason": reason}, status
            return {"socket": f"/shell/socket/{self.openings}", "session_id": str(self.openings)}

        @bp.route("/shell/socket/<number>", websocket=True)
        def socket(number):
            fd_passing.ensure_websocket_handshake(request.environ)
            fd_passing.ensure_same_origin(request.environ, self.url)
            target = {"host": self.guest.host, "port": self.guest.port, "user": "root"}
            target |= {"private_key": self.guest.user_key, "host_key": self.known_host_key}
            fd_passing.pass_socket(request.environ, self.path, {"kind": "shell", "id": number, "target": target})
            return fd_passing.SocketPassed()

        @bp.get("/shell/host-key")
        def host_key():
            return {"known": make_fingerprint(self.known_host_key), "shown": make_fingerprint(self.presented_host_key)}

        @bp.post("/shell/host-key")
        def trust():
            if request.form["shown"] != make_fingerprint(self.presented_host_key):
                return {"message": "The instance presented another key in the meantime.", "reason": None}, 409
            self.known_host_key = self.presented_host_key
            return {"message": "The key is accepted."}

        return bp


def make_fingerprint(key):
    return key and compute_fingerprint(key)


def run_bash(channel, interface):
    """Run bash of this machine in a new pseudo-terminal. Return its exit code."""
    parent, child = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "guest# "}
    # When the tests run as a background job, both signals are ignored, and Control+C would have no effect.
    command = ["env", "--default-signal=INT,QUIT", "bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command], stdin=child, stdout=child, stderr=child, env=environment, cwd="/"
    )
    os.close(child)
    size = None
    try:
        while True:
            if interface.sizes[-1] != size:
                size = interface.sizes[-1]
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
