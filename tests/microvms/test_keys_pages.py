"""Keys of the sandbox API on the pages."""

import re
from html import unescape

from sqlalchemy import select

from panel.core.db import session
from panel.models import Member, MicrovmApiKey
from panel.services import microvm_api_keys, settings
from panel.services.access import get_for_account


def create_key(account, name="agents"):
    key, value = microvm_api_keys.create(get_for_account(account), name=name)
    session.commit()
    return key, value


def test_key_pages_create_to_revoke(browser_as, cast):
    """SBX-11, SBX-12, SBX-15: the value is on the page after the form, and on no other."""
    browser = browser_as("owner")
    assert "No sandbox key yet" in browser.get("/sandbox-keys").text
    rights = "create, pause and destroy all micro VMs of your account, run commands in them and read their files."
    assert rights in browser.get("/sandbox-keys/new").text
    answer = browser.post("/sandbox-keys/new", data={"name": "agents"})
    assert answer.status_code == 303
    shown = browser.get(answer.headers["Location"]).text
    value = re.search("e2b_[0-9a-f]{40}", shown)[0]
    key = session.scalars(select(MicrovmApiKey)).one()
    assert (key.name, key.prefix, key.account_id) == ("agents", value[:8], cast.owner.id)
    assert f"export E2B_API_KEY={value}" in shown
    assert "not be shown again" in shown
    assert rights in shown
    assert browser.get(answer.headers["Location"]).status_code == 303
    listed = browser.get("/sandbox-keys").text
    assert f"{value[:8]}…" in listed
    assert value not in listed
    assert "Never" in listed
    assert f"Revoke agents ({key.prefix}…)? Last used: never." in listed
    assert f"Revoke {key.prefix}…" in listed
    assert browser.post(f"/sandbox-keys/{key.id}/revoke").status_code == 303
    assert key.revoked_at
    listed = browser.get("/sandbox-keys").text
    assert f"Key agents ({key.prefix}…) revoked." in listed
    assert "Revoked" in listed
    assert f"/sandbox-keys/{key.id}/revoke" not in listed


def test_revocation_without_javascript_asks_first(browser_as, cast):
    """SBX-15: the form has the question, which a script would have asked."""
    key, _value = create_key(cast.owner)
    browser, path = browser_as("owner"), f"/sandbox-keys/{key.id}/revoke"
    action = re.search(f'action="({path}[^"]*)" hx-post="{path}"', browser.get("/sandbox-keys").text)[1]
    asked = browser.post(unescape(action), headers={"Referer": "http://localhost/sandbox-keys"})
    assert (asked.status_code, key.revoked_at) == (428, None)
    assert f"Revoke agents ({key.prefix}…)? Last used: never." in asked.text
    assert 'href="/sandbox-keys">Cancel</a>' in asked.text
    assert f'action="{path}"' in asked.text
    assert browser.post(path).status_code == 303
    assert key.revoked_at


def test_refused_name_is_marked_in_the_form(browser_as):
    answer = browser_as("owner").post("/sandbox-keys/new", data={"name": ""})
    assert answer.status_code == 422
    assert 'id="wrong-name"' in answer.text


def test_foreign_key_is_not_found(browser_as, cast):
    key, _value = create_key(cast.outsider)
    assert browser_as("owner").post(f"/sandbox-keys/{key.id}/revoke").status_code == 404
    assert key.name not in browser_as("owner").get("/sandbox-keys").text


def test_member_without_delete_permission_sees_missing_permission(browser_as, cast):
    role = session.scalar(select(Member).where(Member.account_id == cast.viewer.id)).role
    role.permissions = ["microvm.view", "microvm.manage"]
    session.commit()
    browser = browser_as("viewer")
    assert "creating one needs microvm.delete" in browser.get("/sandbox-keys").text
    assert browser.post("/sandbox-keys/new", data={"name": "agents"}).status_code == 403


def test_examples_use_what_the_installation_has(browser_as, change_config):
    """SBX-08, SBX-09: reaching into sandboxes is shown only where it works."""

    def read_page():
        return browser_as("owner").get("/sandbox-keys/sdk").text

    page = read_page()
    assert "export E2B_API_URL=http://localhost:8000/api/sbx" in page
    assert "pip install e2b" in page
    assert "npm install e2b" in page
    for absent in ("export E2B_DOMAIN", "export E2B_SANDBOX_URL", "commands.run", "sandbox exec"):
        assert absent not in page, absent
    assert "but not run commands in them" in page
    assert "Contact support." in page
    assert "PANEL_SANDBOX" not in page
    change_config(sandbox_url="https://router.example.net/")
    page = read_page()
    assert (
        "export E2B_API_URL=http://localhost:8000/api/sbx\nexport E2B_SANDBOX_URL=https://router.example.net\n" in page
    )
    assert "Ports of sandboxes are not reachable from outside." in page
    assert "commands.run" in page
    for more in (
        "sandbox.files.write",
        "sandbox.pause()",
        "e2b-code-interpreter",
        "allow_internet_access",
        "/user/api/documentation",
    ):
        assert more in page, more
    change_config(sandbox_domain="sbx.example.net:8443")
    page = read_page()
    assert "export E2B_DOMAIN=sbx.example.net:8443\nexport E2B_API_KEY=" in page
    for absent in (
        "export E2B_API_URL",
        "export E2B_SANDBOX_URL",
        "Ports of sandboxes are not",
        "but not run commands in them",
    ):
        assert absent not in page, absent
    assert "sandbox exec" in page


def test_search_finds_keys_by_name(browser_as, cast):
    create_key(cast.owner, "nightly agents")
    assert "nightly agents" in browser_as("owner").get("/search?q=nightly").text
    assert "nightly agents" not in browser_as("outsider").get("/search?q=nightly").text


def test_pages_say_that_billing_is_off(browser_as, cast):
    key, _value = create_key(cast.owner)
    settings.update({"billing_enabled": False})
    session.commit()
    browser = browser_as("owner")
    assert 'href="/sandbox-keys"' not in browser.get("/").text
    for path in ("/sandbox-keys", "/sandbox-keys/new"):
        page = browser.get(path).text
        assert "Billing is disabled, so this cannot be used. Contact support." in page, path
        assert "Create key" not in page, path
        assert "<h4" not in page, "a heading below a title of the first level"
    assert browser.post("/sandbox-keys/new", data={"name": "agents"}).status_code == 403
    assert browser.post(f"/sandbox-keys/{key.id}/revoke").status_code == 303
