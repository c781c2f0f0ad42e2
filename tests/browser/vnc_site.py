"""The VNC console page, with a fake panel that tests control."""

import secrets
import tempfile
import threading
from pathlib import Path

from flask import Blueprint, Flask, jsonify, render_template, request
from flask_login import LoginManager
from werkzeug.serving import WSGIRequestHandler, make_server

from consoles import fd_passing
from consoles.event_loop import EventLoop
from consoles.server import ConsoleServer
from panel.core.config import ROOT, Config
from panel.core.errors import Problem
from panel.pages import layout
from panel.web import assets, translation

POWER_ACTIONS = [
    {"action": "start", "label": "Start", "address": "/power/start", "question": None, "danger": False},
    {
        "action": "stop",
        "label": "Power off",
        "address": "/power/stop",
        "question": "It loses power.",
        "danger": True,
    },
]


class QuietRequestHandler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        """Do not log requests."""


class FakePanel:
    """`session_refusal` is the answer to requests for a new session, (status, body), or None. `state_changes` override
    the state of sessions."""

    def __init__(self, machine, keymap="de"):
        self.machine, self.keymap = machine, keymap
        self.session_refusal, self.state_changes, self.power_actions, self.session_count = None, {}, [], 0
        self.sessions = {}
        """State by secret."""
        self.directory = tempfile.TemporaryDirectory()
        self.consoles = ConsoleServer(
            Path(self.directory.name) / "consoles.sock",
            on_report=self.on_report,
            event_loop=EventLoop(close_timeout_seconds=1),
        )
        self.consoles.start()
        self.server = make_server("127.0.0.1", 0, self.create_app(), threaded=True, request_handler=QuietRequestHandler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.consoles.stop(0.5)
        self.directory.cleanup()

    def create_session(self):
        self.session_count += 1
        secret = secrets.token_urlsafe(8)
        self.sessions[secret] = {"state": "fresh", "reason": None, "message": None, "power": "on"}
        return secret

    def make_page_url(self):
        return f"{self.url}/console/{self.create_session()}"

    def on_report(self, report):
        session = self.sessions[report["labels"]["session"]]
        if report["event"] == "opened":
            session["state"] = "open"
        else:
            session |= {"state": "ended", "reason": report["reason"], "message": report["message"]}

    def create_app(self):
        app = Flask("screens", template_folder=ROOT / "templates", static_folder=None)
        app.extensions["config"] = Config(public_url="http://127.0.0.1")
        app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
        LoginManager(app).user_loader(lambda _: None)  # nobody has chosen a language
        translation.init_app(app)
        app.jinja_env.globals |= {
            "asset_url": assets.asset_url,
            "icon_url": assets.icon_url,
            "ui": layout.Macros(app.jinja_env),
            "nonce": layout.get_csp_nonce,
        }
        app.register_blueprint(assets.bp)
        app.after_request(layout.set_security_headers)
        sign_in = Blueprint("sign_in", __name__)
        sign_in.add_url_rule("/sign-in", "show", lambda: "sign in")
        app.register_blueprint(sign_in)
        self.add_session_routes(app)
        self.add_connection_routes(app)
        return app

    def add_session_routes(self, app):
        """Add the page of the console, and what its script asks for."""

        @app.errorhandler(Problem)
        def refused(problem):
            return {"message": problem.message, "reason": problem.reason}, problem.status

        @app.get("/console/<secret>")
        def show(secret):
            where = f"/console/{secret}"
            return render_template(
                "console/vnc.html",
                name="web-1",
                password="onceonly",
                socket=f"/vnc/?session={secret}",
                keymap=self.keymap,
                new_session_url=f"{where}/again",
                state=f"{where}/state",
                back="/instances/1",
                power=POWER_ACTIONS,
            )

        @app.post("/console/<secret>/again")
        def again(secret):
            assert secret in self.sessions
            if self.session_refusal:
                status, body = self.session_refusal
                return body, status
            new = self.create_session()
            return jsonify(page=f"/console/{new}", socket=f"/vnc/?session={new}", password="onceonly")

        @app.get("/console/<secret>/state")
        def state(secret):
            return self.sessions[secret] | self.state_changes

    def add_connection_routes(self, app):
        """Add the power buttons and the WebSocket."""

        @app.post("/power/<action>")
        def power(action):
            self.power_actions.append(action)
            return {"message": f"web-1 is told to {action}."}

        @app.route("/vnc/", websocket=True)
        def vnc():
            fd_passing.ensure_websocket_handshake(request.environ)
            target = {"host": self.machine.host, "port": self.machine.port, "node_password": "nodepass"}
            target |= {"password": "onceonly"}
            note = {"kind": "screen", "id": request.args["session"], "labels": {}, "target": target}
            fd_passing.pass_socket(request.environ, self.consoles.path, note)
            return fd_passing.SocketPassed()
