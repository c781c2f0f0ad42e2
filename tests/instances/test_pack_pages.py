"""Resource packs on the customers' pages: contents, usage, and creating instances from them."""

import re

from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance
from panel.services import resource_packs, settings
from tests.instances.resource_packs import create_instance, create_pack  # noqa: F401  (fixtures)
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline
from tests.support.instances import build_form
from tests.support.team import VIEW_PERMISSIONS, add_member  # noqa: F401  (fixtures)

RESOURCE_PACKS_PATH, NEW_INSTANCE_PAGE = "/resource-packs", "/instances/new"


def assert_valid_page(answer):
    outline = HtmlOutline(answer.text)
    assert (answer.status_code, outline.open, len(outline.ids)) == (200, [], len(set(outline.ids)))
    return answer.text


def get_selected_pack(page):
    """Return the id of the selected pack on the page of a new instance; empty means none."""
    return re.search(r'name="pack_id" value="([^"]*)" checked', page).group(1)


def test_pack_page_without_packs_explains_them(browser_as, cast):
    browser = browser_as("owner")
    assert "The operators of the platform" in assert_valid_page(browser.get(RESOURCE_PACKS_PATH))
    assert 'href="/resource-packs"' in browser.get("/").text
    assert "pack_id" not in browser.get(NEW_INSTANCE_PAGE).text


def test_pack_pages_show_contents_and_usage(browser_as, create_pack, create_instance):
    pack, empty = (
        create_pack(name="Lab <1>", price=40, description="For the students", instances=3),
        create_pack(name="Spare"),
    )
    instance = create_instance(pack_id=pack["id"], display_name="Shop <front>").json["instance"]["id"]
    browser = browser_as("owner")
    page = assert_valid_page(browser.get(RESOURCE_PACKS_PATH))
    assert ("Lab &lt;1&gt;" in page, "Spare" in page) == (True, True)
    assert re.search(r'1 <small class="text-secondary">of 3</small>', page)
    page = assert_valid_page(browser.get(f"{RESOURCE_PACKS_PATH}/{pack['id']}"))
    assert ("For the students" in page, "1 of 2 cores" in page, "10 GiB of 25 GiB" in page) == (True, True, True)
    assert f'href="/instances/{instance}"' in page
    assert "No instances yet" in assert_valid_page(browser.get(f"{RESOURCE_PACKS_PATH}/{empty['id']}"))
    overview = browser.get(f"/instances/{instance}").text
    assert (
        f'href="{RESOURCE_PACKS_PATH}/{pack["id"]}"' in overview,
        "per month" in overview.partition("Machine")[2][:400],
    ) == (
        True,
        False,
    )


def test_packs_of_other_account_are_not_shown(browser_as, create_pack, add_member):
    pack = create_pack()
    assert browser_as("viewer").get(f"{RESOURCE_PACKS_PATH}/{pack['id']}").status_code == 200
    assert browser_as("outsider").get(f"{RESOURCE_PACKS_PATH}/{pack['id']}").status_code == 404
    assert pack["name"] not in browser_as("outsider").get(RESOURCE_PACKS_PATH).text
    add_member(
        "sorter", [view_permission for view_permission in VIEW_PERMISSIONS if view_permission != "instances.view"]
    )
    assert browser_as("sorter").get(RESOURCE_PACKS_PATH).status_code == 403
    assert 'href="/resource-packs"' not in browser_as("sorter").get("/").text


def test_pack_list_page_has_constant_query_count(browser_as, create_pack, queries):
    browser = browser_as("owner")

    def count_queries():
        browser.get(RESOURCE_PACKS_PATH)
        queries.clear()
        browser.get(RESOURCE_PACKS_PATH)
        return len(queries)

    create_pack()
    few = count_queries()
    for _ in range(5):
        create_pack()
    assert count_queries() == few


def test_instance_is_created_from_chosen_pack(browser_as, cast, create_pack):
    first, second = create_pack(name="First"), create_pack(name="Second")
    browser = browser_as("owner")
    page = browser.get(NEW_INSTANCE_PAGE).text
    assert get_selected_pack(page) == first["id"]
    assert "/api/self-provisioning/instances" in page
    assert get_selected_pack(browser.get(f"{NEW_INSTANCE_PAGE}?pack_id={second['id']}").text) == second["id"]
    preview = browser.post(
        NEW_INSTANCE_PAGE, data=build_form(cast, pack_id="", preview="1"), headers=PARTIAL_HEADERS
    ).text
    assert (get_selected_pack(preview), "/api/cloud-service/instances" in preview) == ("", True)
    assert browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=second["id"])).status_code == 303
    assert browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id="")).status_code == 303
    instances = session.scalars(select(Instance).order_by(Instance.id)).all()
    assert [(instance.pack_id, instance.billing_mode) for instance in instances] == [
        (second["id"], "self_provisioned"),
        (None, "cloud_service"),
    ]


def test_exhausted_pack_is_marked_and_refused(browser_as, cast, create_pack):
    pack = create_pack(instances=1)
    browser = browser_as("owner")
    assert browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=pack["id"])).status_code == 303
    page = browser.get(NEW_INSTANCE_PAGE).text
    assert (get_selected_pack(page), "The resource pack is for 1 instances." in page) == ("", True)
    refused = browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=pack["id"]))
    assert (refused.status_code, 'id="wrong-pack_id"' in refused.text) == (422, True)
    assert session.query(Instance).count() == 1
    foreign = resource_packs.create(user_id=cast.outsider.id, name="x", cpu_cores=9, ram=9999, storage=99)
    session.commit()
    refused = browser.post(NEW_INSTANCE_PAGE, data=build_form(cast, pack_id=foreign.id))
    assert (refused.status_code, "No such resource pack." in refused.text) == (422, True)


def test_overview_excludes_price_of_pack_instances(browser_as, create_pack, create_instance):
    def get_monthly_price():
        return re.search(r">([^<]*\d)</span><span[^>]*>total per month", browser_as("owner").get("/").text).group(1)

    settings.update({"billing_enabled": True})
    session.commit()
    assert create_instance().status_code == 200  # its own plan's price counts
    before = get_monthly_price()
    pack = create_pack(price=40)
    assert create_instance(pack_id=pack["id"]).status_code == 200
    assert get_monthly_price() == before
    assert not before.endswith(" 0.00")
