"""The web server of `panel web` around an application that shows what arrived: `python -m tests.server.app FD`."""

import asyncio
import ipaddress
import os
import re
import socket
import sys
import threading
import time

from flask import Flask, Response, jsonify, request, stream_with_context

from panel.server.application import AsyncRoute
from panel.server.connection_limits import ConnectionLimits
from panel.server.server import ParentProcess, raise_file_limit, serve

BODY_MAX_BYTES = 2 * 1024 * 1024
THREADS = 4


def make_app():
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = BODY_MAX_BYTES
    received_paths = []

    @app.route("/<path:path>", methods=["GET", "POST", "PUT"])
    def describe_request(path):
        """Return what the application received. The body is read unless the path ends in `refuse`."""
        received_paths.append(path)
        if path.endswith("refuse"):
            return {"refused": True}, 403
        strings = {name: value for name, value in request.environ.items() if isinstance(value, str)}
        return jsonify(body=request.get_data().decode("latin-1"), environ=strings, process=os.getpid())

    @app.get("/seen")
    def list_seen():
        return jsonify(seen=received_paths, threads=threading.active_count())

    @app.get("/sleep/<float:seconds>")
    def sleep(seconds):
        time.sleep(seconds)
        return {"slept": seconds}

    @app.get("/large/<int:size>")
    def large(size):
        return Response(b"x" * size)

    @app.get("/lines/<int:count>")
    def lines(count):
        def write():
            for number in range(count):
                yield f"{number} {request.path}\n"

        return Response(stream_with_context(write()), mimetype="text/plain")

    @app.get("/api/crash")
    def crash():
        raise RuntimeError("crash of a test")

    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app


async def stream_events(scope, receive, send):
    """An event stream that stays open until the client disconnects or the process stops."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"data: begun\n\n", "more_body": True})
    tasks = [asyncio.create_task(scope["state"]["stopping"].wait()), asyncio.create_task(wait_for_disconnect(receive))]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await send({"type": "http.response.body", "body": b"data: ended\n\n", "more_body": False})


async def wait_for_disconnect(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


def run_server(listener, heartbeat):
    time.sleep(float(os.environ.get("START_SECONDS", "0")))
    limits = ConnectionLimits(
        head_seconds=float(os.environ.get("HEAD_SECONDS", "30")),
        incomplete_heads_per_address=int(os.environ.get("HEADS_PER_ADDRESS", "0")),
        trusted_proxies=(ipaddress.ip_network("127.0.0.9/32"),),
    )
    routes = (AsyncRoute(re.compile("/events/[a-z]+"), stream_events),)
    serve(
        make_app(),
        listener,
        threads=THREADS,
        body_max_bytes=BODY_MAX_BYTES,
        limits=limits,
        routes=routes,
        heartbeat=heartbeat,
    )


if __name__ == "__main__":
    raise_file_limit()
    ParentProcess(socket.socket(fileno=int(sys.argv[1])), int(os.environ.get("PROCESSES", "1")), run_server).run()
