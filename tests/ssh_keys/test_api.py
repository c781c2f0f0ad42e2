"""SSH keys in the customers' API."""

import subprocess

import pytest

from panel.core.db import session
from panel.models import SshKey

SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0x7dLSNbO8zpWt/5mYUZrqkMRYBDzSRHwLnmRLQIAw ada@laptop"


def create_key(as_, **values):
    return as_("owner", "POST", "/api/ssh-keys", json={"name": "laptop", "public_key": SSH_PUBLIC_KEY, **values})


def test_ssh_key_is_returned_as_sent(api_as):
    """OTH-13"""
    key = create_key(api_as).json["ssh_key"]
    assert (key["name"], key["public_key"], key["comments"]) == ("laptop", SSH_PUBLIC_KEY, "ada@laptop")
    assert api_as("owner", "GET", f"/api/ssh-key/{key['id']}").json["ssh_key"] == key
    assert api_as("owner", "GET", "/api/ssh-keys").json["data"] == [key]


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_ssh_key_with_line_break_at_its_end_is_accepted(api_as, line_break):
    """The file of ssh-keygen ends with one, and configuration tools compare what they sent with the answer."""
    key = create_key(api_as, public_key=SSH_PUBLIC_KEY + line_break).json["ssh_key"]
    assert (key["public_key"], key["comments"]) == (SSH_PUBLIC_KEY + line_break, "ada@laptop")
    assert session.get(SshKey, key["id"]).authorized_keys_line == SSH_PUBLIC_KEY


def test_ssh_key_fingerprint_matches_ssh_keygen(api_as, tmp_path):
    (tmp_path / "key.pub").write_text(SSH_PUBLIC_KEY + "\n")
    output = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True
    ).stdout
    assert create_key(api_as).json["ssh_key"]["fingerprint"] == output.split()[1]


def test_ssh_key_rename_and_delete(api_as):
    key = create_key(api_as).json["ssh_key"]
    changed = api_as("owner", "PATCH", f"/api/ssh-key/{key['id']}", json={"name": "Desk 2.0", "comments": None})
    assert (changed.json["ssh_key"]["name"], changed.json["ssh_key"]["comments"]) == ("Desk 2.0", None)
    assert api_as("owner", "DELETE", f"/api/ssh-keys/{key['id']}").json["success"] is True
    assert api_as("owner", "GET", f"/api/ssh-key/{key['id']}").status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 33),
        ("name", "späce"),
        ("name", "a\n"),
        ("name", None),
        ("public_key", "nonsense"),
        ("public_key", "ssh-ed25519 AAAA"),
        ("public_key", SSH_PUBLIC_KEY + "\n" + SSH_PUBLIC_KEY),
        ("public_key", 7),
        ("surprise", 1),
    ],
)
def test_invalid_ssh_keys_are_refused(api_as, field, value):
    answer = create_key(api_as, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_ssh_key_name_is_unique_per_account(api_as):
    create_key(api_as)
    assert list(create_key(api_as).json["errors"]) == ["name"]
    other = api_as("owner", "POST", "/api/ssh-keys", json={"name": "other", "public_key": SSH_PUBLIC_KEY}).json[
        "ssh_key"
    ]
    assert api_as("owner", "PATCH", f"/api/ssh-key/{other['id']}", json={"name": "laptop"}).status_code == 422
    own_answer = api_as("outsider", "POST", "/api/ssh-keys", json={"name": "laptop", "public_key": SSH_PUBLIC_KEY})
    assert own_answer.status_code == 200


@pytest.mark.parametrize(("algorithm", "bits"), [("ed25519", None), ("ed25519", 256), ("rsa", 2048), ("rsa", None)])
def test_generated_private_key_matches_public_key(api_as, tmp_path, algorithm, bits):
    body = {"name": "made", "algorithm": algorithm, **({"bits": bits} if bits else {})}
    answer = api_as("owner", "POST", "/api/ssh-key/generate", json=body).json
    private = tmp_path / "key"
    private.write_text(answer["private_key"])
    private.chmod(0o600)
    public = subprocess.run(["ssh-keygen", "-yf", private], capture_output=True, text=True, check=True).stdout
    assert public.split()[:2] == answer["ssh_key"]["public_key"].split()[:2]
    assert answer["private_key"] not in api_as("owner", "GET", "/api/ssh-keys").text


@pytest.mark.parametrize(
    "body", [{"algorithm": "dsa"}, {"algorithm": "rsa", "bits": 1024}, {"algorithm": "ed25519", "bits": 2048}]
)
def test_ssh_key_sizes_are_validated(api_as, body):
    answer = api_as("owner", "POST", "/api/ssh-key/generate", json={"name": "made", **body})
    assert answer.status_code == 422
