"""The HTTP server of the sandbox daemon: limits, time-outs, access and content types."""

import ast
import json
import socket
import sys
import time

import pytest

from tests.sandbox_guest.daemon import PACKAGE_PARENT, run_daemon, write_identity
from tests.sandbox_guest.raw_client import STREAM_TYPE, TOKEN, RawClient, encode_envelope

MODULES = sorted((PACKAGE_PARENT / "sandbox_guest").glob("*.py"))


def read_error(answer):
    status, _headers, body = answer
    error = json.loads(body)
    assert error["code"] == status
    assert error["message"]
    return status


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_modules_import_only_standard_library(module):
    for node in ast.walk(ast.parse(module.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        assert node.level == 1 if isinstance(node, ast.ImportFrom) and not names else True
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_health_needs_no_token(client):
    status, headers, body = client.request("GET", "/health", token=None)
    assert (status, body) == (204, b"")
    assert "content-length" not in headers


@pytest.mark.parametrize("token", [None, "wrong", "é"])
@pytest.mark.parametrize("path", ["/envs", "/metrics", "/process.Process/List", "/files?path=x", "/absent"])
def test_wrong_token_is_unauthorized(client, path, token):
    method = "POST" if "process" in path else "GET"
    assert read_error(client.request(method, path, token=token)) == 401


def test_envs_and_metrics(client):
    assert json.loads(client.request("GET", "/envs")[2]) == {"SHARED": "of the sandbox"}
    metrics = json.loads(client.request("GET", "/metrics")[2])
    assert metrics["mem_total"] > metrics["mem_used"] > 0
    assert metrics["disk_total"] >= metrics["disk_used"] > 0
    assert 0 <= metrics["cpu_used_pct"] <= 100
    assert metrics["mem_total_mib"] == metrics["mem_total"] // 2**20
    assert abs(metrics["ts"] - time.time()) < 5


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/init", 404), ("GET", "/absent", 404), ("PUT", "/files", 405), ("GET", "/process.Process/List", 405)],
)
def test_unknown_route_or_method_is_refused(client, method, path, status):
    assert read_error(client.request(method, path)) == status


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/process.Process/List", "application/proto"),
        ("/process.Process/List", STREAM_TYPE),
        ("/process.Process/Start", "application/connect+proto"),
        ("/process.Process/Start", "application/json"),
    ],
)
def test_wrong_content_type_is_415(client, path, content_type):
    assert read_error(client.request("POST", path, b"{}", {"Content-Type": content_type})) == 415


def test_connection_is_reused_and_browsers_are_allowed(client):
    status, headers, _body = client.request("GET", "/envs", headers={"Origin": "https://app.test"})
    assert status == 200
    assert headers["access-control-allow-origin"] == "*"
    fields = {"Origin": "https://app.test", "Access-Control-Request-Headers": "x-access-token"}
    status, headers, _body = client.request("OPTIONS", "/files", headers=fields, token=None)
    assert (status, headers["access-control-allow-headers"]) == (204, "x-access-token")


def test_unread_body_does_not_break_connection(client):
    assert client.request("POST", "/absent", b"x" * 100_000)[0] == 404
    assert client.request("GET", "/envs")[0] == 200


def test_answer_to_head_has_no_body(client):
    client.send("HEAD", "/files")
    assert client.read_head()[0] == 405
    assert client.request("GET", "/envs")[0] == 200


def test_oversized_head_is_431(client):
    client.socket.sendall(b"GET /health HTTP/1.1\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n")
    assert read_error(client.read_answer()) == 431
    assert client.file.read() == b""


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/2\r\n\r\n",
        b"GET http://[x/health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET /health HTTP/1.1\r\nName : space\r\n\r\n",
        b"POST /files HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /files HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
        b"POST /files HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /files HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
def test_malformed_head_is_400(client, head):
    client.socket.sendall(head)
    assert read_error(client.read_answer()) == 400


def test_oversized_message_is_413(client):
    fields = {"Content-Type": "application/json"}
    assert read_error(client.request("POST", "/process.Process/List", b" " * (8 * 2**20 + 1), fields)) == 413


def test_malformed_chunk_is_400(client):
    head = f"POST /process.Process/List HTTP/1.1\r\nX-Access-Token: {TOKEN}\r\nContent-Type: application/json\r\n"
    client.socket.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n")
    assert read_error(client.read_answer()) == 400


def test_malformed_message_is_invalid_argument(client):
    for body in (b"{", b"[]", b"\xff"):
        status, _headers, answer = client.request(
            "POST", "/process.Process/List", body, {"Content-Type": "application/json"}
        )
        assert (status, json.loads(answer)["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0",
        encode_envelope({})[:-1],
        encode_envelope({}) * 2,
        encode_envelope({}, flags=1),
        b"\0\xff\xff\xff\xff",
        encode_envelope(b"{"),
        encode_envelope({"process": {"cmd": 5}}),
        encode_envelope({"process": {"cmd": "a\0b"}}),
        encode_envelope({"process": {"cmd": ""}}),
        encode_envelope({"process": {"cmd": "/absent"}}),
        encode_envelope({"process": {"cmd": "/bin/true", "cwd": "/absent"}}),
    ],
)
def test_errors_of_streams_are_in_end_envelope(client, body):
    client.send("POST", "/process.Process/Start", [body] if body else b"", {"Content-Type": STREAM_TYPE})
    assert client.read_head()[0] == 200
    events, end = client.read_events()
    assert events == []
    assert end["error"]["code"] in ("invalid_argument", "internal", "resource_exhausted")


def test_slow_head_times_out_and_connections_are_limited(tmp_path):
    path = tmp_path / "identity.json"
    write_identity(path)
    with run_daemon(path, "--max-connections", "2", "--head-timeout", "1") as port:
        with RawClient(port) as first, RawClient(port) as second:
            first.socket.sendall(b"GET /health HT")
            second.socket.sendall(b"GET /health HT")
            with RawClient(port) as third:
                assert read_error(third.read_answer()) == 503
            assert read_error(first.read_answer()) == 408
            assert read_error(second.read_answer()) == 408
            assert first.file.read() == b""
        with RawClient(port) as silent:
            assert silent.file.read() == b""


def test_half_closed_connection_is_answered(client):
    client.send("GET", "/envs")
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read_answer()[0] == 200


def test_identity_is_required_and_read_again(tmp_path):
    path = tmp_path / "identity.json"
    with run_daemon(path) as port, RawClient(port) as client:
        assert client.request("GET", "/health", token=None)[0] == 204
        for method, target in (("GET", "/envs"), ("GET", "/absent"), ("POST", "/process.Process/Start")):
            assert read_error(client.request(method, target)) == 503
        write_identity(path)
        assert client.request("GET", "/envs")[0] == 200
        write_identity(path, access_token="other")
        assert client.request("GET", "/envs")[0] == 401
        assert client.request("GET", "/envs", token="other")[0] == 200
        path.write_text("no json")
        assert read_error(client.request("GET", "/envs")) == 503
