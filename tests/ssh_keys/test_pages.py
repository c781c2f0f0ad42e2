"""SSH keys on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import SshKey
from panel.services import ssh_keys
from tests.test_pages import PARTIAL_HEADERS

SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBDkNXnKfjDGWqHR8BbYbwbAzZ+JfkjfFXwXWo2wUUpC ada@laptop"


def key(account, name="laptop"):
    made = ssh_keys.generate(account, name=name, algorithm="ed25519")[0]
    session.commit()
    return made


def test_ssh_key_is_added_by_page(browser_as, cast):
    answer = browser_as("owner").post(
        "/ssh-keys/new", data={"name": "laptop", "public_key": SSH_PUBLIC_KEY, "comments": ""}
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ssh-keys")
    made = session.scalars(select(SshKey)).one()
    assert (made.name, made.public_key, made.account_id) == ("laptop", SSH_PUBLIC_KEY, cast.owner.id)
    assert made.fingerprint in browser_as("owner").get("/ssh-keys").text


def test_what_is_wrong_stands_beside_its_field(browser_as, cast):
    key(cast.owner)
    for name, line, message in (
        ("laptop", SSH_PUBLIC_KEY, "This name is taken."),
        ("new", "ssh-ed25519 nonsense", "Paste one line in OpenSSH format."),
        ("a/b", SSH_PUBLIC_KEY, "Only letters, digits"),
    ):
        answer = browser_as("owner").post("/ssh-keys/new", data={"name": name, "public_key": line})
        assert answer.status_code == 422
        assert message in answer.text
        assert f'value="{name}"' in answer.text
        assert line in answer.text
    assert len(session.scalars(select(SshKey)).all()) == 1


def test_a_part_that_was_refused_is_the_form_again(browser_as):
    answer = browser_as("owner").post("/ssh-keys/new", data={"name": ""}, headers=PARTIAL_HEADERS)
    assert answer.status_code == 200
    assert answer.text.lstrip().startswith('<form id="form"')
    assert 'aria-invalid="true"' in answer.text


def test_generate_shows_the_private_half_once(browser_as, cast):
    answer = browser_as("owner").post("/ssh-keys/generate", data={"name": "ci runner", "algorithm": "ed25519"})
    assert "-----BEGIN OPENSSH PRIVATE KEY-----" in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert "PRIVATE" not in browser_as("owner").get("/ssh-keys").text


def test_rename_and_delete(browser_as, cast):
    made = key(cast.owner)
    address = f"/ssh-keys/{made.id}"
    assert "laptop" in browser_as("owner").get(address).text
    assert browser_as("owner").post(address, data={"name": "desktop", "comments": ""}).status_code == 303
    assert (made.name, made.comments) == ("desktop", None)
    assert browser_as("owner").post(address + "/delete").status_code == 303
    assert session.scalars(select(SshKey)).all() == []


def test_outsiders_find_nothing(browser_as, cast):
    made = key(cast.owner)
    outsider = browser_as("outsider")
    assert outsider.get(f"/ssh-keys/{made.id}").status_code == 404
    assert outsider.post(f"/ssh-keys/{made.id}", data={"name": "mine"}).status_code == 404
    assert outsider.post(f"/ssh-keys/{made.id}/delete").status_code == 404
    assert made.fingerprint not in outsider.get("/ssh-keys").text
    assert made.name == "laptop"


def test_the_list_takes_the_same_queries_for_many(browser_as, cast, queries):
    browser = browser_as("owner")
    key(cast.owner)
    queries.clear()
    browser.get("/ssh-keys")
    few = len(queries)
    for number in range(24):
        key(cast.owner, f"key {number}")
    queries.clear()
    assert browser.get("/ssh-keys").text.count('class="name-cell"') == 25
    assert len(queries) == few
