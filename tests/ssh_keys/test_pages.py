"""SSH keys on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import SshKey
from panel.services import ssh_keys
from tests.support.html_pages import PARTIAL_HEADERS

SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBDkNXnKfjDGWqHR8BbYbwbAzZ+JfkjfFXwXWo2wUUpC ada@laptop"


def create_key(account, name="laptop"):
    ssh_key = ssh_keys.generate(account, name=name, algorithm="ed25519")[0]
    session.commit()
    return ssh_key


def test_ssh_key_is_added_by_page(browser_as, cast):
    answer = browser_as("owner").post(
        "/ssh-keys/new", data={"name": "laptop", "public_key": SSH_PUBLIC_KEY, "comments": ""}
    )
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ssh-keys")
    ssh_key = session.scalars(select(SshKey)).one()
    assert (ssh_key.name, ssh_key.public_key, ssh_key.account_id) == ("laptop", SSH_PUBLIC_KEY, cast.owner.id)
    assert ssh_key.fingerprint in browser_as("owner").get("/ssh-keys").text


def test_form_errors_appear_at_fields(browser_as, cast):
    create_key(cast.owner)
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


def test_refused_partial_request_returns_form(browser_as):
    answer = browser_as("owner").post("/ssh-keys/new", data={"name": ""}, headers=PARTIAL_HEADERS)
    assert answer.status_code == 200
    assert answer.text.lstrip().startswith('<form id="form"')
    assert 'aria-invalid="true"' in answer.text


def test_generated_private_key_is_shown_once(browser_as, cast):
    answer = browser_as("owner").post("/ssh-keys/generate", data={"name": "ci runner", "algorithm": "ed25519"})
    assert "-----BEGIN OPENSSH PRIVATE KEY-----" in answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert "PRIVATE" not in browser_as("owner").get("/ssh-keys").text


def test_ssh_key_page_renames_and_deletes(browser_as, cast):
    key = create_key(cast.owner)
    address = f"/ssh-keys/{key.id}"
    assert "laptop" in browser_as("owner").get(address).text
    assert browser_as("owner").post(address, data={"name": "desktop", "comments": ""}).status_code == 303
    assert (key.name, key.comments) == ("desktop", None)
    assert browser_as("owner").post(address + "/delete").status_code == 303
    assert session.scalars(select(SshKey)).all() == []


def test_ssh_key_of_other_account_is_not_found(browser_as, cast):
    key = create_key(cast.owner)
    outsider = browser_as("outsider")
    assert outsider.get(f"/ssh-keys/{key.id}").status_code == 404
    assert outsider.post(f"/ssh-keys/{key.id}", data={"name": "mine"}).status_code == 404
    assert outsider.post(f"/ssh-keys/{key.id}/delete").status_code == 404
    assert key.fingerprint not in outsider.get("/ssh-keys").text
    assert key.name == "laptop"


def test_ssh_key_list_query_count_is_constant(browser_as, cast, queries):
    browser = browser_as("owner")
    create_key(cast.owner)
    queries.clear()
    browser.get("/ssh-keys")
    few = len(queries)
    for number in range(24):
        create_key(cast.owner, f"key {number}")
    queries.clear()
    assert browser.get("/ssh-keys").text.count('class="name-cell"') == 25
    assert len(queries) == few
