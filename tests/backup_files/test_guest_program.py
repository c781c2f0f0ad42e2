"""The program that reads the files, on a tree of this machine."""

import io
import json
import os
import socket
import tarfile
import threading

import pytest

from worker.backup_guest.errors import Refused
from worker.backup_guest.names import decode_path, encode_name
from worker.backup_guest.transfer import BLOCK_BYTES, Port, serve
from worker.backup_guest.tree import list_folder
from worker.guest import backup_files as guest_files
from worker.nodes.base import NodeError

UNUSUAL_NAMES = (b"plain", b"with space", "Grüße".encode(), b"100%", b"new\nline", b"\xff\xfe", "a\u202eb".encode())
LIMIT = 2**20


@pytest.fixture
def root(tmp_path):
    (tmp_path / "disk/etc").mkdir(parents=True)
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "disk/etc/hosts").write_text("localhost\n")
    (tmp_path / "disk/link").symlink_to("/etc")
    (tmp_path / "disk/etc/file-link").symlink_to("../../outside")
    os.mkfifo(tmp_path / "disk/pipe")
    return tmp_path


@pytest.fixture
def channel(root):
    """The panel's end of the port of the running program."""
    panel_end, guest_end = socket.socketpair()
    thread = threading.Thread(target=serve, args=(Port(guest_end.fileno(), ends=True), root))
    thread.start()
    with panel_end:
        yield panel_end
    thread.join(5)
    guest_end.close()
    assert not thread.is_alive()


def receive(channel, path, limit=LIMIT):
    content = io.BytesIO()
    result = guest_files.receive(channel, path, limit=limit, write=content.write, report=lambda size: None)
    return result, content.getvalue()


@pytest.mark.parametrize("name", UNUSUAL_NAMES)
def test_unusual_names_survive(root, name, channel):
    (root / "disk" / os.fsdecode(name)).write_bytes(name)
    text = encode_name(name)
    assert text.isprintable()
    assert decode_path(text) == [name]
    assert text in [entry["name"] for entry in list_folder(root, "disk", "", 100)["entries"]]
    assert receive(channel, f"disk/{text}") == ((None, False), name)


def test_huge_folder_is_listed_in_parts(root):
    for number in range(25):
        (root / f"disk/etc/{number:03}").touch()
    names, after = [], ""
    while True:
        part = list_folder(root, "disk/etc", after, 10)
        names += [entry["name"] for entry in part["entries"]]
        if not part["has_more"]:
            break
        after = names[-1]
    assert names == [*(f"{number:03}" for number in range(25)), "file-link", "hosts"]


def test_entries_have_their_facts(root):
    entries = {entry["name"]: entry for entry in list_folder(root, "disk", "", 10)["entries"]}
    assert {name: entry["type"] for name, entry in entries.items()} == {
        "etc": "folder",
        "link": "link",
        "pipe": "other",
    }
    assert entries["link"]["target"] == "/etc"
    [_, hosts] = list_folder(root, "disk/etc", "", 10)["entries"]
    assert (hosts["size"], hosts["modified_at"]) == (10, int((root / "disk/etc/hosts").stat().st_mtime))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("disk/link", "is_a_link"),
        ("disk/link/passwd", "is_a_link"),
        ("disk/etc/hosts", "not_a_folder"),
        ("disk/missing", "not_found"),
        ("disk/../outside", "not_found"),
        ("disk/%2E%2E", "not_found"),
        ("disk/etc%2Fhosts", "not_found"),
        ("disk/%00", "not_found"),
        ("disk/" + "x" * 300, "not_found"),
    ],
)
def test_folder_is_refused(root, path, code):
    with pytest.raises(Refused, match=code):
        list_folder(root, path, "", 10)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("disk/etc/file-link", "is_a_link"),
        ("disk/link/passwd", "is_a_link"),
        ("disk/pipe", "not_a_file"),
        ("disk/missing", "not_found"),
        ("disk/../outside", "not_found"),
        ("", "not_found"),
    ],
)
def test_download_is_refused(channel, path, code):
    (error, _is_archive), content = receive(channel, path)
    assert (error, content) == (code, b"")
    assert receive(channel, "disk/etc/hosts") == ((None, False), b"localhost\n"), "the next request is answered"


def test_large_file_arrives_byte_for_byte(root, channel):
    content = os.urandom(3 * BLOCK_BYTES + 5)
    (root / "disk/large").write_bytes(content)
    assert receive(channel, "disk/large", len(content)) == ((None, False), content)
    assert receive(channel, "disk/large", len(content) - 1) == (("too_large", False), b"")


def test_folder_arrives_as_archive_without_devices(root, channel):
    (error, is_archive), content = receive(channel, "disk")
    assert (error, is_archive) == (None, True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert members.keys() == {"disk", "disk/etc", "disk/etc/hosts", "disk/etc/file-link", "disk/link"}
        assert (members["disk/link"].issym(), members["disk/link"].linkname) == (True, "/etc")
        assert archive.extractfile("disk/etc/hosts").read() == b"localhost\n"


def test_archive_of_unusual_names(root, channel):
    for name in UNUSUAL_NAMES:
        (root / "disk/etc" / os.fsdecode(name)).write_bytes(name)
    _result, content = receive(channel, "disk/etc")
    with tarfile.open(fileobj=io.BytesIO(content), errors="surrogateescape") as archive:
        assert {os.fsencode(name.removeprefix("etc/")) for name in archive.getnames()} >= set(UNUSUAL_NAMES)


def test_too_large_archive_ends_with_reason(root, channel):
    (root / "disk/etc/large").write_bytes(bytes(LIMIT))
    (error, is_archive), content = receive(channel, "disk/etc")
    assert (error, is_archive) == ("too_large", True)
    assert len(content) <= LIMIT


def test_deeply_nested_folder_is_refused_and_the_program_continues(root, channel):
    folder = root / "disk"
    depth = 900
    path = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=path)
        path, parent = os.open("d", os.O_RDONLY, dir_fd=path), path
        os.close(parent)
    os.close(path)
    (error, is_archive), _content = receive(channel, "disk", 2**30)
    assert (error, is_archive) in (("unreadable", True), (None, True))
    assert receive(channel, "disk/etc/hosts") == ((None, False), b"localhost\n")


def test_unread_answer_does_not_disturb_next_request(root, channel):
    """A caller leaves in the middle of a download; the next one gets its own file."""
    (root / "disk/large").write_bytes(os.urandom(40 * BLOCK_BYTES))
    request = {"id": "a" * 64, "path": "disk/large", "limit": 2**30}
    channel.sendall(f"{json.dumps(request)}\n".encode())
    assert channel.recv(100)
    assert receive(channel, "disk/etc/hosts") == ((None, False), b"localhost\n")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"id": 1}', b"\xff" * 100_000])
def test_wrong_request_is_ignored(channel, line):
    channel.sendall(line + b"\n")
    assert receive(channel, "disk/etc/hosts") == ((None, False), b"localhost\n")


@pytest.mark.parametrize("answer", [b"D\xff\xff\xff\xff", b"E\0\0\0\1{", b"X\0\0\0\1x", b"D\0\0\0\4abcd" * 3, b""])
def test_wrong_answer_of_guest_is_an_error(answer):
    """The guest may send anything; nothing more than the limit is written."""
    panel_end, guest_end = socket.socketpair()

    def send():
        request = json.loads(guest_end.recv(10_000))
        guest_end.sendall(request["id"].encode() + answer)
        guest_end.shutdown(socket.SHUT_WR)

    with panel_end, guest_end:
        thread = threading.Thread(target=send)
        thread.start()
        content = io.BytesIO()
        with pytest.raises(NodeError):
            guest_files.receive(panel_end, "x", limit=10, write=content.write, report=lambda size: None)
        thread.join()
    assert len(content.getvalue()) <= 10


@pytest.mark.parametrize(
    "output",
    ["", "no json", "[]", '{"entries": 1}', '{"entries": [1]}', '{"entries": [{"type": "folder/"}]}'],
)
def test_wrong_list_of_guest_is_an_error(output):
    with pytest.raises(NodeError):
        guest_files.list_folder(FakeNode(output), "id", "disk", "", 10)


def test_list_of_guest_is_cleaned():
    entry = {"name": "a/b\x1b[2J\u202e", "type": "file", "size": -1, "modified_at": "1", "target": "\n" * 5, "x": 1}
    answer = guest_files.list_folder(FakeNode(json.dumps({"entries": [entry] * 50, "has_more": 1})), "id", "", "", 2)
    clean = {"name": "ab[2J", "type": "file", "size": None, "modified_at": None, "target": ""}
    assert answer == {"entries": [clean] * 2, "has_more": False}


class FakeNode:
    def __init__(self, output):
        self.output = output

    def agent_run(self, machine_id, command):
        return type("Result", (), {"exit_code": 0, "output": self.output})
