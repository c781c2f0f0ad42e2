"""The webhook receiver and the bare senders of the webhook benchmark, each in its own process.

`python -m tests.bench.receivers PART …` prints a line when the part is ready.
"""

import hashlib
import hmac
import json
import os
import socket
import ssl
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import urllib3

WEBHOOK_SECRET = "a secret of the bench"


def run_receiver(certificate):
    """Run a minimal receiver of webhooks. A GET returns the number of received webhooks, and for those to /late the
    seconds since their events."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    statistics = {"count": 0, "late": {}}
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve_connection, args=(context, connection, statistics), daemon=True).start()


def serve_connection(context, connection, statistics):
    try:
        with context.wrap_socket(connection, server_side=True) as stream:
            reader = stream.makefile("rb")
            while request := reader.readline():
                length = 0
                while (header := reader.readline()) != b"\r\n":
                    if header.lower().startswith(b"content-length:"):
                        length = int(header[15:])
                body = reader.read(length)
                stream.sendall(make_response(request, body, statistics))
    except OSError:
        pass


def make_response(request, body, statistics):
    if request.startswith(b"GET"):
        content = json.dumps(statistics).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)
    if b"/late" in request:
        event = json.loads(body)["event"]
        happened = datetime.fromisoformat(event["created_at"]).timestamp()
        statistics["late"].setdefault(event["id"], time.time() - happened)
    statistics["count"] += 1
    return b"HTTP/1.1 204 No Content\r\n\r\n"


def send_bare(url, authority, bodies, go):
    """Sign and post the bodies over a persistent connection, as soon as the file `go` exists."""
    lines = Path(bodies).read_bytes().splitlines()
    pool = urllib3.connection_from_url(url, ca_certs=authority, maxsize=1)
    print("ready", flush=True)
    while not os.path.exists(go):
        time.sleep(0.002)
    for body in lines:
        signature = hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Signature-256": f"sha256={signature}"}
        assert pool.request("POST", url, body, headers=headers).status == 204


if __name__ == "__main__":
    {"receiver": run_receiver, "bare": send_bare}[sys.argv[1]](*sys.argv[2:])
