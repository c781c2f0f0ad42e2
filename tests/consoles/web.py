"""A web application that only passes sockets to the console server, as the panel's own views do."""

import os
import socket
import sys

from flask import Flask, request

from consoles import fd_passing
from panel.core.errors import Problem
from panel.server.connection_limits import ConnectionLimits
from panel.server.server import ParentProcess, serve

PUBLIC_URL = "https://panel.example.com"


def create_app(consoles, note):
    app = Flask(__name__)

    @app.errorhandler(Problem)
    def handle_problem(problem):
        return {"message": problem.message, "reason": problem.reason}, problem.status

    @app.route("/vnc/", websocket=True)
    def open_console():
        fd_passing.ensure_websocket_handshake(request.environ)
        fd_passing.ensure_same_origin(request.environ, PUBLIC_URL)
        fd_passing.pass_socket(request.environ, consoles, note)
        return fd_passing.SocketPassed()

    @app.route("/vnc/")
    def reject_plain_request():
        fd_passing.ensure_websocket_handshake(request.environ)

    @app.get("/ping")
    def ping():
        return "pong"

    return app


def create_app_from_environment():
    target = {"host": "127.0.0.1", "port": int(os.environ["NODE"]), "password": "onceonly", "node_password": "nodepass"}
    note = {"kind": "screen", "id": "s", "labels": {"account": "ada"}, "limits": {"account": 30}, "target": target}
    return create_app(os.environ["CONSOLES"], note)


def run_server(listener, heartbeat):
    serve(
        create_app_from_environment(),
        listener,
        threads=2,
        body_max_bytes=4096,
        limits=ConnectionLimits(),
        heartbeat=heartbeat,
    )


if __name__ == "__main__":
    ParentProcess(socket.socket(fileno=int(sys.argv[1])), 1, run_server).run()
