"""SSH keys by the customers' API."""

import subprocess

import pytest

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0x7dLSNbO8zpWt/5mYUZrqkMRYBDzSRHwLnmRLQIAw ada@laptop"


def create(as_, **values):
    return as_("owner", "POST", "/api/ssh-keys", json={"name": "laptop", "public_key": KEY, **values})


def test_a_key_comes_back_as_it_was_sent(as_):
    """OTH-13"""
    key = create(as_).json["ssh_key"]
    assert (key["name"], key["public_key"], key["comments"]) == ("laptop", KEY, "ada@laptop")
    assert as_("owner", "GET", f"/api/ssh-key/{key['id']}").json["ssh_key"] == key
    assert as_("owner", "GET", "/api/ssh-keys").json["data"] == [key]


def test_the_fingerprint_is_the_one_of_ssh_keygen(as_, tmp_path):
    (tmp_path / "key.pub").write_text(KEY + "\n")
    told = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True
    ).stdout
    assert create(as_).json["ssh_key"]["fingerprint"] == told.split()[1]


def test_rename_and_remove(as_):
    key = create(as_).json["ssh_key"]
    changed = as_("owner", "PATCH", f"/api/ssh-key/{key['id']}", json={"name": "Desk 2.0", "comments": None})
    assert (changed.json["ssh_key"]["name"], changed.json["ssh_key"]["comments"]) == ("Desk 2.0", None)
    assert as_("owner", "DELETE", f"/api/ssh-keys/{key['id']}").json["success"] is True
    assert as_("owner", "GET", f"/api/ssh-key/{key['id']}").status_code == 404


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
        ("public_key", KEY + "\n" + KEY),
        ("public_key", 7),
        ("surprise", 1),
    ],
)
def test_bad_keys_name_their_field(as_, field, value):
    answer = create(as_, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_a_name_is_used_once_in_an_account(as_):
    create(as_)
    assert list(create(as_).json["errors"]) == ["name"]
    other = as_("owner", "POST", "/api/ssh-keys", json={"name": "other", "public_key": KEY}).json["ssh_key"]
    assert as_("owner", "PATCH", f"/api/ssh-key/{other['id']}", json={"name": "laptop"}).status_code == 422
    mine = as_("outsider", "POST", "/api/ssh-keys", json={"name": "laptop", "public_key": KEY})
    assert mine.status_code == 200


@pytest.mark.parametrize(("algorithm", "bits"), [("ed25519", None), ("ed25519", 256), ("rsa", 2048), ("rsa", None)])
def test_a_generated_pair_belongs_together(as_, tmp_path, algorithm, bits):
    body = {"name": "made", "algorithm": algorithm, **({"bits": bits} if bits else {})}
    answer = as_("owner", "POST", "/api/ssh-key/generate", json=body).json
    private = tmp_path / "key"
    private.write_text(answer["private_key"])
    private.chmod(0o600)
    public = subprocess.run(["ssh-keygen", "-yf", private], capture_output=True, text=True, check=True).stdout
    assert public.split()[:2] == answer["ssh_key"]["public_key"].split()[:2]
    assert answer["private_key"] not in as_("owner", "GET", "/api/ssh-keys").text


@pytest.mark.parametrize(
    "body", [{"algorithm": "dsa"}, {"algorithm": "rsa", "bits": 1024}, {"algorithm": "ed25519", "bits": 2048}]
)
def test_other_sizes_are_refused(as_, body):
    answer = as_("owner", "POST", "/api/ssh-key/generate", json={"name": "made", **body})
    assert answer.status_code == 422
