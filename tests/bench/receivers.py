"""What stands around the senders while they are measured, each in a process of its own.

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

SECRET = "a secret of the bench"


def receiver(certificate):
    """The least that takes webhooks: it answers each, and says to a GET how many there were, and how long after their
    events those to /late arrived."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    told = {"count": 0, "late": {}}
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=take, args=(context, connection, told), daemon=True).start()


def take(context, connection, told):
    try:
        with context.wrap_socket(connection, server_side=True) as line:
            reader = line.makefile("rb")
            while request := reader.readline():
                length = 0
                while (header := reader.readline()) != b"\r\n":
                    if header.lower().startswith(b"content-length:"):
                        length = int(header[15:])
                body = reader.read(length)
                line.sendall(answer(request, body, told))
    except OSError:
        pass


def answer(request, body, told):
    if request.startswith(b"GET"):
        facts = json.dumps(told).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(facts), facts)
    if b"/late" in request:
        event = json.loads(body)["event"]
        happened = datetime.fromisoformat(event["created_at"]).timestamp()
        told["late"].setdefault(event["id"], time.time() - happened)
    told["count"] += 1
    return b"HTTP/1.1 204 No Content\r\n\r\n"


def bare(url, authority, bodies, go):
    """A loop that signs and posts, over a connection that is kept. It begins when the file `go` is there."""
    lines = Path(bodies).read_bytes().splitlines()
    pool = urllib3.connection_from_url(url, ca_certs=authority, maxsize=1)
    print("ready", flush=True)
    while not os.path.exists(go):
        time.sleep(0.002)
    for body in lines:
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Signature-256": f"sha256={signature}"}
        assert pool.request("POST", url, body, headers=headers).status == 204


if __name__ == "__main__":
    {"receiver": receiver, "bare": bare}[sys.argv[1]](*sys.argv[2:])
