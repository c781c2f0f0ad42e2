"""Customers' resource packs on the pages: what is in them, what is used, and making instances from them."""

import re

from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance
from panel.services import resource_packs, settings
from tests.instances.test_pages import build_form
from tests.instances.test_resource_packs import create, pack  # noqa: F401  (fixtures)
from tests.team.conftest import VIEW_PERMISSIONS, add_member  # noqa: F401  (a fixture)
from tests.test_pages import PARTIAL_HEADERS, HtmlOutline

PACKS, NEW_INSTANCE_PAGE = "/resource-packs", "/instances/new"


def assert_page_sound(answer):
    outline = HtmlOutline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    return answer.text


def selected_pack(page):
    """The pack that is ticked on the page of a new instance; empty is none."""
    return re.search(r'name="pack_id" value="([^"]*)" checked', page).group(1)


def test_without_packs_it_says_what_they_are(browser_as, cast):
    browser = browser_as("owner")
    assert "The operators of the platform" in assert_page_sound(browser.get(PACKS))
    assert 'href="/resource-packs"' in browser.get("/").text
    assert "pack_id" not in browser.get(NEW_INSTANCE_PAGE).text


def test_what_is_in_a_pack_and_what_is_used(browser_as, pack, create):
    made, empty = pack(name="Lab <1>", price=40, description="For the students", instances=3), pack(name="Spare")
    instance = create(pack_id=made["id"], display_name="Shop <front>").json["instance"]["id"]
    browser = browser_as("owner")
    page = assert_page_sound(browser.get(PACKS))
    assert ("Lab &lt;1&gt;" in page, "Spare" in page) == (True, True)
    assert re.search(r'1 <small class="text-secondary">of 3</small>', page)
    page = assert_page_sound(browser.get(f"{PACKS}/{made['id']}"))
    assert ("For the students" in page, "1 of 2 cores" in page, "10 GiB of 25 GiB" in page) == (True, True, True)
    assert f'href="/instances/{instance}"' in page
    assert "No instances yet" in assert_page_sound(browser.get(f"{PACKS}/{empty['id']}"))
    overview = browser.get(f"/instances/{instance}").text
    assert (f'href="{PACKS}/{made["id"]}"' in overview, "per month" in overview.partition("Machine")[2][:400]) == (
        True,
        False,
    )


def test_others_packs_are_not_there(browser_as, pack, add_member):
    made = pack()
    assert browser_as("viewer").get(f"{PACKS}/{made['id']}").status_code == 200
    assert browser_as("outsider").get(f"{PACKS}/{made['id']}").status_code == 404
    assert made["name"] not in browser_as("outsider").get(PACKS).text
    add_member("sorter", [each for each in VIEW_PERMISSIONS if each != "instances.view"])
    assert browser_as("sorter").get(PACKS).status_code == 403
    assert 'href="/resource-packs"' not in browser_as("sorter").get("/").text


def test_the_list_costs_the_same_for_many(browser_as, pack, queries):
    browser = browser_as("owner")

    def asked():
        browser.get(PACKS)
        queries.clear()
        browser.get(PACKS)
        return len(queries)

    pack()
    few = asked()
    for _ in range(5):
        pack()
    assert asked() == few


def test_an_instance_is_made_from_the_pack_that_is_chosen(browser_as, cast, pack):
    first, second = pack(name="First"), pack(name="Second")
    browser = browser_as("owner")
    page = browser.get(NEW_INSTANCE_PAGE).text
    assert selected_pack(page) == first["id"]
    assert "/api/self-provisioning/instances" in page
    assert selected_pack(browser.get(f"{NEW_INSTANCE_PAGE}?pack_id={second['id']}").text) == second["id"]
    look = browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id="", look="1"), headers=PARTIAL_HEADERS).text
    assert (selected_pack(look), "/api/cloud-service/instances" in look) == ("", True)
    assert browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=second["id"])).status_code == 303
    assert browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id="")).status_code == 303
    made = session.scalars(select(Instance).order_by(Instance.id)).all()
    assert [(each.pack_id, each.billing_mode) for each in made] == [
        (second["id"], "self_provisioned"),
        (None, "cloud_service"),
    ]


def test_a_pack_that_is_used_up_says_so(browser_as, cast, pack):
    made = pack(instances=1)
    browser = browser_as("owner")
    assert browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=made["id"])).status_code == 303
    page = browser.get(NEW_INSTANCE_PAGE).text
    assert (selected_pack(page), "The resource pack is for 1 instances." in page) == ("", True)
    refused = browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=made["id"]))
    assert (refused.status_code, 'id="wrong-pack_id"' in refused.text) == (422, True)
    assert session.query(Instance).count() == 1
    foreign = resource_packs.create(user_id=cast.outsider.id, name="x", cpu_cores=9, ram=9999, storage=99)
    session.commit()
    refused = browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=foreign.id))
    assert (refused.status_code, "No such resource pack." in refused.text) == (422, True)


def test_the_overview_counts_no_price_for_what_a_pack_pays(browser_as, pack, create):
    def price():
        return re.search(r">([^<]*\d)</span><span[^>]*>total per month", browser_as("owner").get("/").text).group(1)

    settings.update({"billing_enabled": True})
    session.commit()
    assert create().status_code == 200  # its own plan's price counts
    before = price()
    made = pack(price=40)
    assert create(pack_id=made["id"]).status_code == 200
    assert price() == before
    assert not before.endswith(" 0.00")
