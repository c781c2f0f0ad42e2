"""Host names of sandboxes: a name server, and nginx with the configuration of docs/tls-and-load-balancing.md."""

import contextlib
import re
import socket
import subprocess
import threading

from tests.sandbox_clients.documents import list_blocks
from tests.support.certificates import issue_certificate
from tests.support.ports import find_free_port
from tests.support.waiting import wait_until

DOCUMENT = "tls-and-load-balancing.md"
DOMAIN = "sandboxes.example.net"
NAME_SERVER = "127.0.0.99"
ANSWER_FLAGS = b"\x81\x80"
LOOPBACK_RECORD = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01"
"""The name of the question, type A, class IN, 60 s, 127.0.0.1."""

WITH_NAME_SERVER = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'


@contextlib.contextmanager
def run_name_server(folder):
    """Answer that every name leads to the loopback address. Gives the beginning of a command that uses it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((NAME_SERVER, 53))
        thread = threading.Thread(target=answer_questions, args=(sock,))
        thread.start()
        (folder / "resolv.conf").write_text(f"nameserver {NAME_SERVER}\n")
        try:
            yield ["unshare", "--mount", "sh", "-ec", WITH_NAME_SERVER, folder / "resolv.conf"]
        finally:
            sock.sendto(b"", (NAME_SERVER, 53))
            thread.join()


def answer_questions(sock):
    while True:
        question, client = sock.recvfrom(512)
        if not question:
            return
        end = question.index(b"\0", 12) + 5
        records = [LOOPBACK_RECORD] if question[end - 4 : end - 2] == b"\0\1" else []
        counts = b"\0\1" + bytes([0, len(records)]) + bytes(4)
        sock.sendto(question[:2] + ANSWER_FLAGS + counts + question[12:end] + b"".join(records), client)


@contextlib.contextmanager
def run_nginx(folder, port, panel, router):
    """Serve the sandbox domain over TLS. Gives the file with the certificate to trust."""
    authority = issue_certificate(None, ca=True, name="authority")
    certificate = issue_certificate([f"*.{DOMAIN}"], by=authority, name="sandboxes")
    (folder / "authority.pem").write_text(authority.pem)
    (folder / "fullchain.pem").write_text(certificate.pem + authority.pem)
    (folder / "key.pem").write_text(certificate.key_pem)
    settings = f"daemon off; pid {folder}/nginx.pid; error_log stderr; events {{}}"
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = build_configuration(folder, port, panel, router)
    (folder / "nginx.conf").write_text(f"{settings}\nhttp {{\naccess_log off;\n{paths}{configuration}}}\n")
    with (folder / "nginx.log").open("w") as log:
        process = subprocess.Popen(["nginx", "-c", folder / "nginx.conf"], stdin=subprocess.DEVNULL, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or is_listening(port), "nginx")
        assert process.poll() is None, (folder / "nginx.log").read_text()
        yield folder / "authority.pem"
    finally:
        process.terminate()
        process.wait(10)


def is_listening(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def build_configuration(folder, port, panel, router):
    """Return the document's configuration with this installation's addresses instead of its examples."""
    [text] = list_blocks(DOCUMENT, "nginx")
    [sandboxes] = list_blocks(DOCUMENT, "Sandboxes")
    for written, used in (
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (r"listen 80 default_server;", f"listen 127.0.0.1:{find_free_port()} default_server;"),
        (r"listen \[::\]:\S+ \w+;", ""),
        (r"server 10\.0\.0\.11:8000;", f"server {panel};"),
        (r"server 10\.0\.0\.12:8000;", ""),
        (r"10\.0\.0\.11:8002", router),
        (r"/etc/ssl/(panel|sandboxes)", str(folder)),
    ):
        text, sandboxes = (re.sub(written, used, part) for part in (text, sandboxes))
    assert "10.0.0" not in text + sandboxes
    return text + sandboxes
