"""A web application that does nothing but hand connections over, as the panel's own views do."""

import os
import socket
import sys

from flask import Flask, request

from consoles import fd_passing
from panel.core.errors import Problem
from panel.server.connection_limits import ConnectionLimits
from panel.server.server import ParentProcess, serve

PUBLIC_URL = "https://panel.example.com"


def make_app(consoles, note):
    app = Flask(__name__)

    @app.errorhandler(Problem)
    def refused(problem):
        return {"message": problem.message, "reason": problem.reason}, problem.status

    @app.route("/vnc/", websocket=True)
    def screen():
        fd_passing.ensure_websocket_handshake(request.environ)
        fd_passing.ensure_same_origin(request.environ, PUBLIC_URL)
        fd_passing.pass_socket(request.environ, consoles, note)
        return fd_passing.SocketPassed()

    @app.route("/vnc/")
    def no_screen():
        fd_passing.ensure_websocket_handshake(request.environ)

    @app.get("/ping")
    def ping():
        return "pong"

    return app


def from_environment():
    target = {"host": "127.0.0.1", "port": int(os.environ["NODE"]), "password": "onceonly", "node_password": "nodepass"}
    note = {"kind": "screen", "id": "s", "labels": {"account": "ada"}, "limits": {"account": 30}, "target": target}
    return make_app(os.environ["CONSOLES"], note)


def run_server(listener, beat):
    serve(from_environment(), listener, threads=2, body_max_bytes=4096, limits=ConnectionLimits(), heartbeat=beat)


if __name__ == "__main__":
    ParentProcess(socket.socket(fileno=int(sys.argv[1])), 1, run_server).run()
