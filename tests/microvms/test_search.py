"""Micro VMs in the searches of customers and operators."""

import pytest

from panel.core.db import session
from panel.services.microvms import connectors
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.team import add_member  # noqa: F401  (fixture)


@pytest.fixture
def shop(create_microvm):
    return create_microvm(name="shop preview", metadata={"run": "17", "ö": "é"})


def find(api_as, text, caller="owner"):
    results = api_as(caller, "GET", "/api/dashboard/search", query_string={"q": text}).json["results"]
    return [row["id"] for row in results if row["type"] == "microvm"]


def test_micro_vm_is_found_by_name_short_id_and_metadata(api_as, browser_as, shop):
    for text in ("shop", "PREVIEW", shop.sandbox_id, shop.sandbox_id[:6].upper(), "run=17", "ö=é"):
        assert find(api_as, text) == [shop.id], text
    for text in ("run=18", "run", "=17", "nothing", shop.sandbox_id[1:]):
        assert find(api_as, text) == [], text
    assert f'href="/microvms/{shop.id}"' in browser_as("owner").get("/search?q=shop").text
    assert shop.name in browser_as("owner").get("/microvms?search=run%3D17").text


def test_search_finds_own_and_granted_micro_vms_only(api_as, shop, add_member, call_api, run_tasks):
    assert find(api_as, "shop", "outsider") == []
    add_member("chooser", ["microvm.view", "microvm.manage"], "chosen")
    assert find(api_as, "shop", "chooser") == []
    add_member("mailer", ["ssh_keys.view"])
    assert find(api_as, "shop", "mailer") == []
    call_api("DELETE", f"vm/{shop.id}")
    run_tasks()
    assert find(api_as, "shop") == [], "an ended one is found by nobody"


def test_operators_find_micro_vms_by_everything_that_people_name(browser_as, shop, cast, change_config):
    change_config(sandbox_domain="sandboxes.example.net")
    connectors.create(cast.owner, microvm_id=shop.id, port=80, label="my-preview")
    session.commit()
    link = f'href="/admin/microvms/{shop.id}"'
    texts = ["shop", shop.sandbox_id[:5], shop.id, "owner@example.com", "my-preview"]
    texts += ["my-preview.sandboxes.example.net", "https://my-preview.sandboxes.example.net/a"]
    for text in texts:
        answer = browser_as("admin").get("/admin/search", query_string={"q": text}, headers=PARTIAL_HEADERS)
        assert link in answer.text, text
    answer = browser_as("admin").get("/admin/search?q=my-previe", headers=PARTIAL_HEADERS)
    assert link not in answer.text
    assert "my-preview.sandboxes.example.net" in browser_as("admin").get(f"/admin/microvms/{shop.id}").text
