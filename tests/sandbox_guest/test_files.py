"""Downloads, uploads, signatures, folders and watches of the sandbox daemon, on the wire."""

import base64
import gzip
import hashlib
import json
import os
import time
from urllib.parse import quote, urlencode

import pytest

from tests.sandbox_guest.daemon import USER
from tests.sandbox_guest.raw_client import TOKEN

FILES = "filesystem.Filesystem"
OCTETS = {"Content-Type": "application/octet-stream"}


def make_target(path, **query):
    return f"/files?{urlencode({'path': path, **query})}"


def sign(path, operation, username="", expiration=None, token=TOKEN):
    text = f"{path}:{operation}:{username}:{token}" + (f":{expiration}" if expiration else "")
    digest = hashlib.sha256(text.encode()).digest()
    query = {"signature": "v1_" + base64.b64encode(digest).decode().rstrip("=")}
    return {**query, "signature_expiration": expiration} if expiration else query


def make_form(*sections, boundary="limit-1"):
    """Return (body, headers) of a form; a section is (field, file name or None, content)."""
    parts = []
    for field, name, content in sections:
        file_name = "" if name is None else f'; filename="{name}"'
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"{file_name}\r\n\r\n'
        parts += [head.encode(), content, b"\r\n"]
    body = b"".join([*parts, f"--{boundary}--\r\n".encode()])
    return body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def upload(client, path, content, headers=OCTETS):
    status, _headers, body = client.request("POST", make_target(path), content, headers)
    return status, json.loads(body)


def test_octet_upload_and_download(client, tmp_path):
    path = tmp_path / "new folder" / "ä.bin"
    content = os.urandom(3_000_000)
    entry = {"path": str(path), "name": "ä.bin", "type": "file"}
    assert upload(client, path, content) == (200, [entry])
    assert path.read_bytes() == content
    status, headers, body = client.request("GET", make_target(path))
    assert (status, body) == (200, content)
    assert headers["content-length"] == "3000000"
    assert headers["vary"] == "Accept-Encoding"
    assert headers["content-disposition"].startswith("inline; filename")
    assert client.request("GET", "/envs")[0] == 200


def test_chunked_and_gzip_uploads(client, tmp_path):
    content = os.urandom(300_000) + b"\0" * 3_000_000
    packed = gzip.compress(content[:1000]) + gzip.compress(content[1000:])
    for body in (packed, [packed[:10], packed[10:100_000], packed[100_000:]]):
        assert upload(client, tmp_path / "a", body, {**OCTETS, "Content-Encoding": "gzip"})[0] == 200
        assert (tmp_path / "a").read_bytes() == content
    assert upload(client, tmp_path / "a", [b"x" * 300_000, b"y"])[0] == 200
    assert (tmp_path / "a").read_bytes() == b"x" * 300_000 + b"y"
    assert upload(client, tmp_path / "a", packed[:-4], {**OCTETS, "Content-Encoding": "gzip"})[0] == 400
    assert upload(client, tmp_path / "a", b"x", {**OCTETS, "Content-Encoding": "br"})[0] == 400


def test_empty_file_has_length_zero(client, tmp_path):
    assert upload(client, tmp_path / "empty", b"")[0] == 200
    status, headers, body = client.request("GET", make_target(tmp_path / "empty"))
    assert (status, headers["content-length"], body) == (200, "0", b"")


def test_file_without_size_is_sent(client):
    status, headers, body = client.request("GET", make_target("/proc/version"))
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    assert body.startswith(b"Linux")


@pytest.mark.parametrize(
    ("header", "status", "content"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-2", 206, b"89"),
        ("bytes=5-99", 206, b"56789"),
        ("bytes=0-", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
        ("bytes=10-", 416, None),
        ("bytes=4-2", 416, None),
    ],
)
def test_range_of_file(client, tmp_path, header, status, content):
    (tmp_path / "digits").write_bytes(b"0123456789")
    answer = client.request("GET", make_target(tmp_path / "digits"), headers={"Range": header})
    assert answer[0] == status
    assert content is None or answer[2] == content


def test_form_keeps_folders_of_file_names(client, tmp_path):
    large = os.urandom(1_500_000) + b"\r\n--limit-" + b"\r\n" * 50_000
    names = [f"{tmp_path}/d/a b.txt", f"{tmp_path}/%41 %22q%22.ü", f"{tmp_path}/empty"]
    sections = [
        ("file", names[0], large),
        ("other", None, b"ignored"),
        ("file", names[1], b"2"),
        ("file", names[2], b""),
    ]
    body, headers = make_form(*sections)
    status, _headers, answer = client.request("POST", "/files", body, headers)
    assert status == 200, answer
    assert [entry["path"] for entry in json.loads(answer)] == [names[0], f'{tmp_path}/%41 "q".ü', names[2]]
    assert (tmp_path / "d" / "a b.txt").read_bytes() == large
    assert (tmp_path / '%41 "q".ü').read_bytes() == b"2"
    assert (tmp_path / "empty").read_bytes() == b""


def test_form_with_one_file_uses_path_of_query(client, tmp_path):
    body, headers = make_form(("file", "ignored.txt", b"content"))
    chunks = [body[index : index + 7] for index in range(0, len(body), 7)]
    assert upload(client, tmp_path / "target", chunks, headers)[0] == 200
    assert (tmp_path / "target").read_bytes() == b"content"
    body, headers = make_form(("file", "one", b"1"), ("file", "two", b"2"))
    assert upload(client, tmp_path / "target", body, headers)[0] == 400


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"x", "text/plain"),
        (b"x", "multipart/form-data"),
        (b"", "multipart/form-data; boundary=b"),
        (b"--b--", "multipart/form-data; boundary=b"),
        (b"--b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n--b--", "multipart/form-data; boundary=b"),
        (b"--b\r\nX: " + b"x" * 100_000, "multipart/form-data; boundary=b"),
        (b"--bad\r\n\r\n", "multipart/form-data; boundary=b"),
        (b"x", "application/octet-stream"),
    ],
)
def test_malformed_upload_is_400(client, body, content_type):
    status, _headers, answer = client.request("POST", "/files", body, {"Content-Type": content_type})
    assert (status, json.loads(answer)["code"]) == (400, 400)


def test_errors_of_downloads_and_uploads(client, tmp_path):
    def read_status(*arguments, **options):
        status, _headers, body = client.request(*arguments, **options)
        assert json.loads(body)["code"] == status
        return status

    os.mkfifo(tmp_path / "pipe")
    assert read_status("GET", make_target(tmp_path / "absent")) == 404
    assert read_status("GET", make_target(tmp_path)) == 400
    assert read_status("GET", make_target(tmp_path / "pipe")) == 400
    assert read_status("GET", make_target("~other/x")) == 400
    assert read_status("GET", make_target("a\0b")) == 400
    assert read_status("GET", make_target(tmp_path, username="no-such-user")) == 401
    assert read_status("GET", make_target(tmp_path), headers={"Accept-Encoding": "gzip, identity;q=0"}) == 406
    assert upload(client, tmp_path, b"x")[0] == 400
    assert upload(client, tmp_path / "pipe", b"x")[0] == 400
    if os.path.exists("/dev/full"):
        assert upload(client, "/dev/full", b"x")[0] in (400, 403)


def test_signature_replaces_token(client, tmp_path):
    path = str(tmp_path / "a+b c.txt")
    for expiration in (None, int(time.time()) + 60):
        target = make_target(path, **sign(path, "write", expiration=expiration))
        assert client.request("POST", target, b"signed", OCTETS, token=None)[0] == 200
        target = make_target(path, **sign(path, "read", expiration=expiration))
        assert client.request("GET", target, token=None)[2] == b"signed"
    target = make_target(path, username=USER.pw_name, **sign(path, "read", USER.pw_name))
    assert client.request("GET", target, token="wrong")[0] == 200
    unquoted = f"/files?path={quote(path)}&signature={sign(path, 'read')['signature']}"
    assert client.request("GET", unquoted, token=None)[0] == 200


def test_wrong_signature_is_unauthorized(client, tmp_path):
    path = str(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    future = int(time.time()) + 60
    for query in (
        {},
        {"signature": "v1_"},
        {"signature": "é"},
        sign(path, "write"),
        sign(path + "x", "read"),
        sign(path, "read", "other"),
        sign(path, "read", token="wrong"),
        sign(path, "read", expiration=int(time.time()) - 1),
        {**sign(path, "read", expiration=future), "signature_expiration": future + 1},
        {**sign(path, "read"), "signature_expiration": "soon"},
        {**sign(path, "read"), "username": USER.pw_name},
    ):
        assert client.request("GET", make_target(path, **query), token=None)[0] == 401, query
    target = f"/process.Process/List?{urlencode(sign('', 'read'))}"
    assert client.request("POST", target, b"{}", {"Content-Type": "application/json"}, token=None)[0] == 401


def test_stat_and_list(client, tmp_path):
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "file").write_text("123")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "broken").symlink_to("absent")
    os.chmod(tmp_path / "folder" / "file", 0o640)
    status, answer = client.call(f"{FILES}/Stat", {"path": f"{tmp_path}/folder/../folder/file"})
    entry = answer["entry"]
    modified = entry.pop("modifiedTime")
    group = entry.pop("group")
    assert status == 200
    assert group
    assert modified.endswith("Z")
    assert entry == {
        "name": "file",
        "type": "FILE_TYPE_FILE",
        "path": f"{tmp_path}/folder/file",
        "size": "3",
        "mode": 0o640,
        "permissions": "-rw-r-----",
        "owner": USER.pw_name,
    }
    entries = client.call(f"{FILES}/ListDir", {"path": str(tmp_path), "depth": 9})[1]["entries"]
    assert [entry["path"].removeprefix(f"{tmp_path}/") for entry in entries] == [
        "broken",
        "folder",
        "folder/deep",
        "folder/file",
        "link",
    ]
    assert (entries[4]["type"], entries[4]["isSymlink"]) == ("FILE_TYPE_DIRECTORY", True)
    assert entries[4]["symlinkTarget"] == str(tmp_path / "folder")
    assert len(client.call(f"{FILES}/ListDir", {"path": f"{tmp_path}/link"})[1]["entries"]) == 2
    assert client.call(f"{FILES}/Stat", {"path": f"{tmp_path}/absent"})[1]["code"] == "not_found"
    assert client.call(f"{FILES}/ListDir", {"path": f"{tmp_path}/absent"})[1]["code"] == "not_found"
    assert client.call(f"{FILES}/ListDir", {"path": f"{tmp_path}/folder/file"})[1]["code"] == "invalid_argument"


def test_make_move_remove(client, tmp_path):
    assert client.call(f"{FILES}/MakeDir", {"path": f"{tmp_path}/a/b"})[1]["entry"]["type"] == "FILE_TYPE_DIRECTORY"
    status, error = client.call(f"{FILES}/MakeDir", {"path": f"{tmp_path}/a/b"})
    assert (status, error["code"]) == (409, "already_exists")
    (tmp_path / "file").write_text("x")
    assert client.call(f"{FILES}/MakeDir", {"path": f"{tmp_path}/file"})[1]["code"] == "invalid_argument"
    message = {"source": f"{tmp_path}/file", "destination": f"{tmp_path}/new/place"}
    assert client.call(f"{FILES}/Move", message)[1]["entry"]["path"] == f"{tmp_path}/new/place"
    assert client.call(f"{FILES}/Move", message)[1]["code"] == "not_found"
    for path in ("a", "a", "new/place", "new/place/below"):
        assert client.call(f"{FILES}/Remove", {"path": f"{tmp_path}/{path}"}) == (200, {})
    assert os.listdir(tmp_path) == ["new"]
    assert client.call(f"{FILES}/Remove", {"path": ""})[1]["code"] == "invalid_argument"
