"""Customers' resource packs on the pages: what is in them, what is used, and making instances from them."""

import re

from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance
from panel.services import resource_packs, settings
from tests.instances.test_pages import wanted
from tests.instances.test_resource_packs import create, pack  # noqa: F401  (fixtures)
from tests.team.conftest import VIEWS, joined  # noqa: F401  (a fixture)
from tests.test_pages import PART, Outline

PACKS, NEW = "/resource-packs", "/instances/new"


def sound(answer):
    outline = Outline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    return answer.text


def chosen(page):
    """The pack that is ticked on the page of a new instance; empty is none."""
    return re.search(r'name="pack_id" value="([^"]*)" checked', page).group(1)


def test_without_packs_it_says_what_they_are(browse, cast):
    browser = browse("owner")
    assert "You get one from the platform" in sound(browser.get(PACKS))
    assert 'href="/resource-packs"' in browser.get("/").text
    assert "pack_id" not in browser.get(NEW).text


def test_what_is_in_a_pack_and_what_is_used(browse, pack, create):  # noqa: F811
    made, empty = pack(name="Lab <1>", price=40, description="For the students", instances=3), pack(name="Spare")
    instance = create(pack_id=made["id"], display_name="Shop <front>").json["instance"]["id"]
    browser = browse("owner")
    page = sound(browser.get(PACKS))
    assert ("Lab &lt;1&gt;" in page, "Spare" in page) == (True, True)
    assert re.search(r'1 <small class="text-secondary">of 3</small>', page)
    page = sound(browser.get(f"{PACKS}/{made['id']}"))
    assert ("For the students" in page, "1 of 2 cores" in page, "10 GiB of 25 GiB" in page) == (True, True, True)
    assert f'href="/instances/{instance}"' in page
    assert "Nothing was made from it yet" in sound(browser.get(f"{PACKS}/{empty['id']}"))
    overview = browser.get(f"/instances/{instance}").text
    assert (f'href="{PACKS}/{made["id"]}"' in overview, "a month" in overview.partition("Machine")[2][:400]) == (
        True,
        False,
    )


def test_others_packs_are_not_there(browse, pack, joined):  # noqa: F811
    made = pack()
    assert browse("viewer").get(f"{PACKS}/{made['id']}").status_code == 200
    assert browse("outsider").get(f"{PACKS}/{made['id']}").status_code == 404
    assert made["name"] not in browse("outsider").get(PACKS).text
    joined("sorter", [each for each in VIEWS if each != "instances.view"])
    assert browse("sorter").get(PACKS).status_code == 403
    assert 'href="/resource-packs"' not in browse("sorter").get("/").text


def test_the_list_costs_the_same_for_many(browse, pack, queries):  # noqa: F811
    browser = browse("owner")

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


def test_an_instance_is_made_from_the_pack_that_is_chosen(browse, cast, pack):  # noqa: F811
    first, second = pack(name="First"), pack(name="Second")
    browser = browse("owner")
    page = browser.get(NEW).text
    assert chosen(page) == first["id"]
    assert "/api/self-provisioning/instances" in page
    assert chosen(browser.get(f"{NEW}?pack_id={second['id']}").text) == second["id"]
    look = browser.post(NEW, data=wanted(cast, pack_id="", look="1"), headers=PART).text
    assert (chosen(look), "/api/cloud-service/instances" in look) == ("", True)
    assert browser.post(NEW, data=wanted(cast, pack_id=second["id"])).status_code == 303
    assert browser.post(NEW, data=wanted(cast, pack_id="")).status_code == 303
    made = session.scalars(select(Instance).order_by(Instance.id)).all()
    assert [(each.pack_id, each.billing_mode) for each in made] == [
        (second["id"], "self_provisioned"),
        (None, "cloud_service"),
    ]


def test_a_pack_that_is_used_up_says_so(browse, cast, pack):  # noqa: F811
    made = pack(instances=1)
    browser = browse("owner")
    assert browser.post(NEW, data=wanted(cast, pack_id=made["id"])).status_code == 303
    page = browser.get(NEW).text
    assert (chosen(page), "The resource pack is for 1 instances." in page) == ("", True)
    refused = browser.post(NEW, data=wanted(cast, pack_id=made["id"]))
    assert (refused.status_code, 'id="wrong-pack_id"' in refused.text) == (422, True)
    assert session.query(Instance).count() == 1
    foreign = resource_packs.create(user_id=cast.outsider.id, name="x", cpu_cores=9, ram=9999, storage=99)
    session.commit()
    refused = browser.post(NEW, data=wanted(cast, pack_id=foreign.id))
    assert (refused.status_code, "No such resource pack." in refused.text) == (422, True)


def test_the_overview_counts_no_price_for_what_a_pack_pays(browse, pack, create):  # noqa: F811
    def price():
        return re.search(r">([^<]*\d)</span><span[^>]*>total per month", browse("owner").get("/").text).group(1)

    settings.update({"billing_enabled": True})
    session.commit()
    assert create().status_code == 200  # its own plan's price counts
    before = price()
    made = pack(price=40)
    assert create(pack_id=made["id"]).status_code == 200
    assert price() == before
    assert not before.endswith(" 0.00")
