"""Resource packs: created by operators, consumed by self-provisioning, never exceeded."""

import threading
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, HypervisorGroup, Instance, MeteringRecord, Plan, UsageHour
from panel.services import catalog, disks, instances, resource_packs, settings, usage
from panel.services.instances import self_provisioning
from tests.instances.resource_packs import PACK_SIZE, PACKS_PATH, SELF_PROVISIONING_PATH, create_instance, create_pack  # noqa: F401  (fixtures)
from tests.support.isolated_app import isolated_installation


def get_pack_usage(as_, pack):
    return as_("admin", "GET", f"/api/v1/self-provisioning/pack/{pack['id']}").json["data"]["used"]


def test_pack_is_created_updated_and_deleted(api_as, cast, create_pack):
    pack = create_pack(price=40, description="For the students")
    path = f"/api/v1/self-provisioning/pack/{pack['id']}"
    assert (pack["user_id"], pack["owner"], pack["price"]) == (cast.owner.id, cast.owner.email, 40)
    assert pack["used"] == {"instances": 0, "cpu_cores": 0, "ram": 0, "storage": 0}
    assert api_as("admin", "GET", path).json["data"] == pack
    assert [row["id"] for row in api_as("admin", "GET", f"{PACKS_PATH}?user_id={cast.owner.id}").json["data"]] == [
        pack["id"]
    ]
    assert api_as("admin", "GET", f"{PACKS_PATH}?user_id={cast.outsider.id}").json["data"] == []
    changed = api_as("admin", "PATCH", path, json={"ram": 2048, "location_id": cast.location.id}).json["data"]
    assert (changed["ram"], changed["location_id"]) == (2048, cast.location.id)
    assert api_as("admin", "PATCH", path, json={"user_id": cast.outsider.id}).status_code == 422
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "GET", path).status_code == 404


def test_pack_instance_cannot_be_transferred(api_as, cast, create_pack, create_instance):
    """Otherwise the new owner would use another account's pack without paying."""
    create_pack()
    instance_id = create_instance().json["instance"]["id"]
    path = f"/api/v1/instance/{instance_id}/assign-user"
    answer = api_as("admin", "POST", path, json={"user_id": cast.outsider.id})
    assert (answer.status_code, answer.json["reason"]) == (409, "has_pack")
    assert session.get(Instance, instance_id).account_id == cast.owner.id


def test_create_pack_with_invalid_field_is_refused(api_as, cast):
    good = {"user_id": cast.owner.id, "name": "x", **PACK_SIZE}
    for field, wrong in (("user_id", cast.admin.id), ("user_id", "x"), ("location_id", "x"), ("ram", 0), ("name", "")):
        answer = api_as("admin", "POST", PACKS_PATH, json={**good, field: wrong})
        assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_instances_consume_pack(api_as, create_pack, create_instance, run_tasks):
    """INS-69"""
    pack = create_pack()
    first = create_instance().json["instance"]["id"]
    assert get_pack_usage(api_as, pack) == {"instances": 1, "cpu_cores": 1, "ram": 512, "storage": 10}
    [shown] = api_as("owner", "GET", f"{SELF_PROVISIONING_PATH}/resources").json["packs"]
    assert (shown["id"], shown["used"]["ram"], "user_id" in shown) == (pack["id"], 512, False)
    assert create_instance(pack_id=pack["id"]).status_code == 200
    for size, reason in (("storage", "storage_not_sufficient"), ("ram", "resources_not_sufficient")):
        enough = {"cpu_cores": 99, "ram": 99999, "storage": 999, size: get_pack_usage(api_as, pack)[size]}
        api_as("admin", "PATCH", f"/api/v1/self-provisioning/pack/{pack['id']}", json=enough)
        answer = create_instance()
        assert (answer.status_code, answer.json["reason"]) == (422, reason)
    assert session.query(Instance).count() == 2
    api_as("owner", "DELETE", f"{SELF_PROVISIONING_PATH}/instances/{first}")
    run_tasks()
    assert get_pack_usage(api_as, pack)["instances"] == 1
    assert create_instance().status_code == 200


def test_first_pack_with_capacity_is_used(api_as, cast, create_pack, create_instance):
    create_pack(instances=1)
    create_instance()
    create_pack(enabled=False)
    elsewhere = HypervisorGroup(name="far", display_name="Far")
    session.add(elsewhere)
    session.commit()
    distant, roomy = create_pack(location_id=elsewhere.id), create_pack(name="Roomy")
    assert create_instance().status_code == 200
    assert get_pack_usage(api_as, roomy)["instances"] == 1
    answer = create_instance(pack_id=distant["id"])
    assert (answer.status_code, answer.json["reason"]) == (422, "pack_elsewhere")


@pytest.mark.parametrize(
    ("facts", "reason"), [({"instances": 1}, "limit_reached"), ({"enabled": False}, "pack_disabled")]
)
def test_unusable_pack_is_refused_with_reason(api_as, create_pack, create_instance, facts, reason):
    pack = create_pack(**facts)
    if reason == "limit_reached":
        create_instance()
    answer = create_instance(pack_id=pack["id"])
    assert (answer.status_code, answer.json["reason"]) == (422, reason)


def test_pack_of_other_account_is_not_found(api_as, create_pack, create_instance):
    pack = create_pack()
    answer = create_instance("outsider", pack_id=pack["id"])
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["pack_id"])
    assert api_as("outsider", "GET", f"{SELF_PROVISIONING_PATH}/resources").json["packs"] == []
    assert create_instance("outsider").status_code == 200


def test_pack_in_use_cannot_shrink_or_be_deleted(api_as, create_pack, create_instance):
    pack = create_pack()
    create_instance()
    path = f"/api/v1/self-provisioning/pack/{pack['id']}"
    for field in PACK_SIZE:
        if field != "cpu_cores":
            answer = api_as("admin", "PATCH", path, json={field: 1})
            assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    answer = api_as("admin", "DELETE", path)
    assert (answer.status_code, answer.json["reason"]) == (409, "pack_in_use")


def test_plan_change_is_limited_by_pack(cast, create_pack, create_instance):
    create_pack()
    instance = instances.get(create_instance().json["instance"]["id"])
    instance.deployed = True
    large = catalog.create_plan(cast.plan.group, name="L", cpu_cores=2, ram=2048, storage=10, price=8)
    fits = catalog.create_plan(cast.plan.group, name="M", cpu_cores=2, ram=1024, storage=10, price=8)
    session.commit()
    with pytest.raises(Invalid) as refused:
        instances.change_plan(instance, plan_id=large.id, actor="test", by_operator=True)
    assert refused.value.reason == "resources_not_sufficient"
    instances.change_plan(instance, plan_id=fits.id, actor="test", by_operator=True)
    assert usage.lock_latest(instance.id).price == 0
    with pytest.raises(Invalid) as refused:
        resource_packs.ensure_capacity(instance, storage=16)
    assert refused.value.reason == "storage_not_sufficient"
    resource_packs.ensure_capacity(instance, storage=15)


def test_additional_disks_consume_pack(api_as, cast, create_pack, create_instance, run_tasks):
    create_pack()
    instance_id = create_instance().json["instance"]["id"]
    api_as("owner", "POST", f"/api/instance/{instance_id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    with pytest.raises(Invalid) as refused:
        disks.add(instances.get(instance_id), size=16, actor="test")
    assert refused.value.reason == "storage_not_sufficient"


def test_pack_is_charged_instead_of_its_instances(create_pack, create_instance):
    settings.update({"billing_enabled": True})
    pack = create_pack(price=40)
    instance = create_instance().json["instance"]["id"]
    for record in session.scalars(select(MeteringRecord)):
        record.first_hour = record.metered_until = usage.truncate_to_hour(clock.now()) - timedelta(hours=2)
    session.commit()
    usage.meter_hours()
    charged = {}
    for hour in session.scalars(select(UsageHour)):
        charged[hour.resource_id] = charged.get(hour.resource_id, 0) + hour.charge
    assert charged[pack["id"]] > 0
    assert charged[instance] == 0


def test_pack_list_has_constant_query_count(api_as, create_pack, queries):
    create_pack()
    api_as("admin", "GET", PACKS_PATH)
    queries.clear()
    api_as("admin", "GET", PACKS_PATH)
    few = len(queries)
    for _ in range(5):
        create_pack()
    queries.clear()
    assert api_as("admin", "GET", PACKS_PATH).json["meta"]["total"] == 6
    assert len(queries) == few


def test_concurrent_creates_do_not_exceed_pack(tmp_path):
    ready, results = threading.Barrier(4), []
    with isolated_installation(tmp_path) as app:
        with app.app_context():
            owner = session.scalars(select(Account).where(Account.operator_role.is_(None))).first()
            group, plan = session.scalars(select(HypervisorGroup)).first(), session.scalars(select(Plan)).first()
            resource_packs.create(user_id=owner.id, name="x", cpu_cores=1, ram=plan.ram, storage=plan.storage)
            arguments, owner_id = {"location_id": group.id, "plan_id": plan.id, "actor": "test"}, owner.id
            session.commit()

        def take():
            ready.wait()
            with app.app_context():
                try:
                    self_provisioning.create_from_pack(session.get(Account, owner_id), **arguments)
                    session.commit()
                    results.append("made")
                except Invalid as error:
                    results.append(error.reason)
                finally:
                    session.remove()

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == ["made", *["resources_not_sufficient"] * 3]


def test_operator_manages_packs_on_page(browser_as, cast, create_pack, create_instance):
    browser = browser_as("admin")
    form = {"user_id": cast.owner.email, "name": "Course", "cpu_cores": "4", "ram": "4096", "storage": "50"}
    assert browser.post("/admin/resource-packs/new", data={**form, "instances": "0", "price": "9.5"}).status_code == 303
    page = browser.get("/admin/resource-packs").text
    assert "Course" in page
    assert cast.owner.email in page
    [instance] = session.scalars(resource_packs.listing()).all()
    address = f"/admin/resource-packs/{instance.id}"
    assert "9.5" in browser.get(address).text
    changed = {**form, "name": "Course 2", "instances": "3", "price": "10", "enabled": "true"}
    del changed["user_id"]
    assert browser.post(address, data=changed).status_code == 303
    session.expire_all()
    assert (instance.name, instance.instances, instance.enabled) == ("Course 2", 3, True)
    create_instance()
    assert browser.post(f"{address}/delete").status_code == 409
    assert browser.post("/admin/resource-packs/new", data={**form, "ram": "x"}).status_code == 422
    assert browser.post("/admin/resource-packs/new", data={**form, "user_id": "nobody@example.com"}).status_code == 422
    assert browser_as("owner").get("/admin/resource-packs").status_code in (403, 404)
