"""A real S3 server, SeaweedFS, and a proxy in front of it that makes faults."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
import uuid
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.ports import find_free_port
from tests.support.waiting import wait_until
from worker.backups.s3 import Bucket, S3Target

WEED = Path(sys.executable).with_name("weed")
IDENTITIES = {
    "backups": ["Read", "List", "Write"],
    "reader": ["Read", "List"],
    "operator": ["Admin", "Read", "List", "Write"],
}
"""Name of an access key → what it may do. Its secret is its name with `-secret`."""

PIECE_BYTES = 64 * 1024
"""Bytes that a proxy reads at once."""

BUCKET, LOCKED_BUCKET = "backups", "locked-backups"
LOCK = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}}


class S3Server:
    """Accepts the keys of `IDENTITIES` and has two buckets, one of them with object lock."""

    def __init__(self, directory):
        self.directory, port = directory, find_free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        identities = [
            {"name": name, "credentials": [{"accessKey": name, "secretKey": f"{name}-secret"}], "actions": actions}
            for name, actions in IDENTITIES.items()
        ]
        (directory / "s3.json").write_text(json.dumps({"identities": identities}))
        options = {
            "ip": "127.0.0.1",
            "dir": directory,
            "s3": "true",
            "s3.config": directory / "s3.json",
            "s3.port": port,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.localSocket": directory / "s3.socket",
            "filer.localSocket": directory / "filer.socket",
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "volume.max": 50,
            "volume.preStopSeconds": 0,
            "s3.port.grpc": find_free_port(),
        }
        for part in ("master", "volume", "filer"):
            options |= {f"{part}.port": find_free_port(), f"{part}.port.grpc": find_free_port()}
        arguments = [f"-{name}={value}" for name, value in options.items()]
        self.log = (directory / "log").open("wb")
        self.process = subprocess.Popen([WEED, "server", *arguments], stdout=self.log, stderr=self.log, cwd=directory)
        self.operator = S3Target(self.get_bucket("operator"), attempts=1).client
        wait_until(self.is_ready, "SeaweedFS")
        self.operator.create_bucket(Bucket=BUCKET)
        self.operator.create_bucket(Bucket=LOCKED_BUCKET, ObjectLockEnabledForBucket=True)
        self.operator.put_object_lock_configuration(Bucket=LOCKED_BUCKET, ObjectLockConfiguration=LOCK)
        wait_until(self.can_store, "SeaweedFS to have a volume")

    def is_ready(self):
        assert self.process.poll() is None, (self.directory / "log").read_text()
        with suppress(BotoCoreError, ClientError):
            return self.operator.list_buckets()

    def can_store(self):
        """Return whether an object can be stored: the server accepts requests earlier."""
        with suppress(BotoCoreError, ClientError):
            self.operator.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
            return self.operator.delete_object(Bucket=BUCKET, Key="ready")

    def get_bucket(self, access_key="backups", bucket=BUCKET):
        return Bucket(self.endpoint, bucket, access_key, f"{access_key}-secret")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class FaultProxy:
    """Passes requests on to the server, and makes a fault of those that `set_fault` names."""

    def __init__(self, server):
        self.upstream = server.endpoint.removeprefix("http://")
        self.context, self.port, self.connections, self.bytes_per_second = None, 0, [], 0
        self.held, self.released = threading.Event(), threading.Event()
        self.clear()
        self.listen()

    def listen(self):
        """Accept connections, at the same port as before."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_request(self):
                proxy.handle(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = handle_request

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self):
                connection, address = super().get_request()
                if proxy.context:
                    connection = proxy.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                proxy.connections.append(connection)
                return connection, address

            def handle_error(self, *_):
                pass

        self.server, self.is_listening = Server(("127.0.0.1", self.port), Handler), True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def endpoint(self):
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def use_certificate(self, path):
        """Speak TLS with this certificate on new connections."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(path)

    def refuse(self):
        """End all connections, and refuse new ones until `listen`."""
        self.close()
        self.is_listening = False
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.connections.clear()
        self.clear()

    def clear(self):
        self.fault, self.method, self.part, self.remaining = None, "", "", 0
        self.released.set()

    def set_fault(self, fault, method="", part="", count=10_000):
        """Make a fault of that many requests with this method and part of the path. `fault` is a status, `lost`,
        `slow`, `changed`, `short`, or `held`: no answer until `clear`."""
        self.held.clear()
        self.released.clear()
        self.fault, self.method, self.part, self.remaining = fault, method, part, count

    def handle(self, request):
        body = self.read_body(request)
        fault = None
        if self.remaining and self.method in ("", request.command) and self.part in request.path:
            fault, self.remaining = self.fault, self.remaining - 1
        if isinstance(fault, int):
            answer = b"<Error><Code>AccessDenied</Code></Error>" if fault == 403 else b""
            return self.answer(request, fault, [], answer)
        if fault == "slow":
            threading.Event().wait(1)  # tests replace `time.sleep`
        if fault == "held":
            self.held.set()
            self.released.wait()
            if not self.is_listening:
                request.close_connection = True
                return
        status, headers, content = self.forward(request, body)
        if fault == "lost":
            request.close_connection = True
            return
        if fault == "changed" and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        if fault == "short":
            request.close_connection = True
        self.answer(request, status, headers, content, len(content) // 2 if fault == "short" else None)

    def read_body(self, request):
        """Read at most `bytes_per_second`; 0 is unlimited."""
        remaining, pieces = int(request.headers.get("Content-Length", 0)), []
        while remaining:
            pieces.append(request.rfile.read(min(remaining, PIECE_BYTES)))
            if not pieces[-1]:
                raise ConnectionError("the client has gone")
            remaining -= len(pieces[-1])
            if self.bytes_per_second:
                threading.Event().wait(len(pieces[-1]) / self.bytes_per_second)
        return b"".join(pieces)

    def forward(self, request, body):
        connection = http.client.HTTPConnection(self.upstream)
        connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            if name.lower() not in ("expect", "connection"):
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), content

    def answer(self, request, status, headers, content, sent_bytes=None):
        request.send_response_only(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding"):
                request.send_header(name, value)
        if "content-length" not in names:
            request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content[:sent_bytes])

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def s3_proxy(s3_server):
    proxy = FaultProxy(s3_server)
    yield proxy
    proxy.close()


@pytest.fixture
def s3_folder():
    """A folder of the bucket for one test, with a slash at its end."""
    return f"{uuid.uuid4().hex}/"


@pytest.fixture
def s3_target(s3_server, s3_folder):
    return S3Target(s3_server.get_bucket(), s3_folder)


@pytest.fixture
def proxied_target(s3_server, s3_proxy, s3_folder):
    """The same through the proxy, with short limits."""
    bucket = replace(s3_server.get_bucket(), endpoint=s3_proxy.endpoint)
    return S3Target(bucket, s3_folder, read_timeout=0.3, attempts=2)
