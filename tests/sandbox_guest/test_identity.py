"""The program that gives a sandbox its identity. The tests write below a folder and leave this machine as it is."""

import base64
import json
import os
import stat

import pytest

from tests.sandbox_guest.identity_program import DOCUMENT, apply
from worker.sandbox_guest import identity


def test_identity_writes_files(root):
    (root / "run/sandbox").mkdir(parents=True)
    (root / "run/sandbox/identity.json").write_text("{}")
    assert apply(root, DOCUMENT).returncode == 0
    assert (root / "etc/hostname").read_text() == "sandbox-7\n"
    assert (root / "etc/hosts").read_text() == "127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\tsandbox-7\n"
    assert (root / "etc/machine-id").read_text() == f"{DOCUMENT['machine_id']}\n"
    path = root / "run/sandbox/identity.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {
        name: DOCUMENT[name] for name in ("access_token", "env", "default_user", "default_workdir")
    }
    assert os.listdir(path.parent) == ["identity.json"]
    assert identity.read_identity(str(path)) == identity.Identity("secret", {"A": "1"}, "user", "/code")


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        {**DOCUMENT, "host_name": "a b"},
        {**DOCUMENT, "host_name": 5},
        {**DOCUMENT, "machine_id": "short"},
        {**DOCUMENT, "entropy": "?"},
        {**DOCUMENT, "time": "now"},
        {**DOCUMENT, "env": {"A": 1}},
        {**DOCUMENT, "access_token": 5},
        {**DOCUMENT, "access_token": ""},
        {**DOCUMENT, "entropy": base64.b64encode(b"too short").decode()},
    ],
)
def test_wrong_identity_is_refused(root, document):
    answer = apply(root, document)
    assert answer.returncode == 1
    assert answer.stderr.startswith("The identity could not be applied")
    assert not (root / "run").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can credit entropy")
def test_entropy_is_credited():
    try:
        identity.add_entropy(os.urandom(64))
    except PermissionError:
        pytest.skip("the container may not credit entropy")


def test_identity_has_defaults():
    assert identity.parse_identity({"access_token": "secret"}) == identity.Identity("secret", {}, "user", "")
