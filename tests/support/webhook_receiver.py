"""A receiver of webhooks: an HTTPS server with a certificate of the tests' own authority."""

import ipaddress
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

WEBHOOK_SECRET = "a secret of the tests"
CERTIFICATE_HOSTS = ("localhost", "127.0.0.1", "hooks.example.com")


class CertificateAuthority:
    """Issues certificates. `pem` is the certificate of the authority."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Laboratory {id(self)}")])
        self.certificate = self.sign(self.name, self.key, None, days=2)
        self.pem = to_pem(self.certificate)

    def sign(self, subject, key, hosts, *, days):
        ends = datetime.now(UTC) + timedelta(days=days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(ends - timedelta(days=30))
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=hosts is None, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([*map(general_name, hosts)]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, directory, hosts=CERTIFICATE_HOSTS, days=2):
        """Write a certificate with its key into a file and return the path."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Receiver")])
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = directory / f"{hosts[0]}-{days}-{id(key)}.pem"
        path.write_text(to_pem(self.sign(subject, key, hosts, days=days)) + secret.decode())
        return path


def to_pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def general_name(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class ReceivedPost(NamedTuple):
    method: str
    path: str
    headers: dict
    body: bytes
    at: float


class Receiver:
    """An HTTPS server that records POST requests in `posts`. `answer` is a status, or a function of the handler that
    writes the response; `answers` are used before it, one for each request."""

    def __init__(self, certificate, answer=204):
        self.posts, self.answers, self.answer = [], [], answer
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append(ReceivedPost(self.command, self.path, dict(self.headers), body, time.monotonic()))
                answer = receiver.answers.pop(0) if receiver.answers else receiver.answer
                if callable(answer):
                    return answer(self)
                self.send_response(answer)
                if answer != 204:
                    self.send_header("Content-Length", "2")
                self.end_headers()
                if answer != 204:
                    self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def get_request(self):
                connection, address = super().get_request()
                receiver.connections += 1
                return receiver.context.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                ), address

            def handle_error(self, *_):
                pass

        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path="/hook", host="127.0.0.1"):
        return f"https://{host}:{self.port}{path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class SilentServer:
    """A server that accepts connections and sends nothing. `speak(connection)` runs in a thread for each."""

    def __init__(self, speak=lambda connection: None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections, self.speak = [], speak
        threading.Thread(target=self.accept_connections, daemon=True).start()

    def accept_connections(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.speak, args=(connection,), daemon=True).start()

    def close(self):
        for connection in (self.listener, *self.connections):
            connection.close()
