"""A web application that does nothing but hand connections over, as the panel's own views do."""

import os

from flask import Flask, request

from consoles import handoff
from panel.errors import Problem

PUBLIC_URL = "https://panel.example.com"


def make_app(consoles, note):
    app = Flask(__name__)

    @app.errorhandler(Problem)
    def refused(problem):
        return {"message": problem.message, "reason": problem.reason}, problem.status

    @app.route("/vnc/", websocket=True)
    def screen():
        handoff.check_handshake(request.environ)
        handoff.check_origin(request.environ, PUBLIC_URL)
        handoff.hand_over(request.environ, consoles, note)
        return handoff.HandedOver()

    @app.route("/vnc/")
    def no_screen():
        handoff.check_handshake(request.environ)

    @app.get("/ping")
    def ping():
        return "pong"

    return app


def from_environment():
    target = {"host": "127.0.0.1", "port": int(os.environ["NODE"]), "password": "onceonly", "node_password": "nodepass"}
    note = {"kind": "screen", "id": "s", "labels": {"account": "ada"}, "limits": {"account": 30}, "target": target}
    return make_app(os.environ["CONSOLES"], note)
