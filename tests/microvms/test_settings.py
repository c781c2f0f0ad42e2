"""Settings of an account for its new micro VMs, in both APIs and on pages."""

import pytest

from panel.core.db import session
from panel.models import AuditEntry, HypervisorGroup, Microvm, MicrovmSettings
from panel.services import microvm_api_keys
from panel.services.access import get_for_account
from panel.services.microvms import profiles
from tests.support.microvms import register_image
from tests.support.team import add_member  # noqa: F401  (fixture)

UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"
NOTHING = {"location_id": None, "image_id": None, "timeout_seconds": None, "on_timeout": None}


@pytest.fixture
def change_settings(call_api):
    """Return a function that changes the settings and returns the new ones."""

    def change(**values):
        answer = call_api("PATCH", "settings", **values)
        assert answer.status_code == 200, answer.json
        return answer.json["settings"]

    return change


@pytest.fixture
def create_sandbox(rolled_back_app, cast, image, profile):
    """Return a function that creates a sandbox as SDKs do. It returns the answer."""
    key = microvm_api_keys.create(get_for_account(cast.owner), name="sdk")[1]
    session.commit()

    def create(path="/v2/sandboxes", **body):
        body = {"templateID": "base", **body}
        return rolled_back_app.test_client().post(f"/api/sbx{path}", json=body, headers={"X-API-Key": key})

    return create


def get_newest():
    return session.query(Microvm).order_by(Microvm.id.desc()).first()


def test_settings_are_changed_field_by_field(call_api, change_settings, microvm_body):
    assert call_api("GET", "settings").json["settings"] == NOTHING
    first = change_settings(timeout_seconds=600, on_timeout="pause")
    assert first == {**NOTHING, "timeout_seconds": 600, "on_timeout": "pause"}
    change_settings(location_id=microvm_body["location_id"], image_id=microvm_body["image_id"])
    assert change_settings(on_timeout=None) == {
        "location_id": microvm_body["location_id"],
        "image_id": microvm_body["image_id"],
        "timeout_seconds": 600,
        "on_timeout": None,
    }
    assert call_api("GET", "settings", "outsider").json["settings"] == NOTHING
    assert session.query(MicrovmSettings).count() == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("location_id", UNKNOWN_ID),
        ("image_id", UNKNOWN_ID),
        ("timeout_seconds", 0),
        ("timeout_seconds", 10**9),
        ("timeout_seconds", "60"),
        ("on_timeout", "explode"),
        ("account_id", UNKNOWN_ID),
    ],
)
def test_invalid_setting_is_a_field_error(call_api, image, field, value):
    answer = call_api("PATCH", "settings", **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_image_of_another_account_is_no_default(call_api, cast):
    foreign = register_image("foreign", aliases=[], account_id=cast.outsider.id)
    assert list(call_api("PATCH", "settings", image_id=foreign.id).json["errors"]) == ["image_id"]


def test_member_with_chosen_resources_and_viewer_do_not_change_settings(call_api, add_member):
    add_member("chooser", ["microvm.view", "microvm.manage"], "chosen")
    assert call_api("GET", "settings", "chooser").status_code == 200
    assert call_api("PATCH", "settings", "chooser", timeout_seconds=60).status_code == 403
    assert call_api("PATCH", "settings", "viewer", timeout_seconds=60).status_code == 403
    add_member("manager", ["microvm.view", "microvm.manage"])
    assert call_api("PATCH", "settings", "manager", timeout_seconds=60).status_code == 200


def test_create_uses_settings_where_the_body_names_nothing(call_api, change_settings, microvm_body, profile):
    answer = call_api("POST", "vms", name="bare")
    assert (answer.status_code, sorted(answer.json["errors"])) == (422, ["image_id", "location_id"])
    place = {name: microvm_body[name] for name in ("location_id", "image_id")}
    change_settings(**place, timeout_seconds=600, on_timeout="pause")
    created = call_api("POST", "vms", name="bare").json["vm"]
    assert {name: created[name] for name in place} == place
    assert (created["timeout_seconds"], created["on_timeout"]) == (600, "pause")
    created = call_api("POST", "vms", name="bare", timeout_seconds=None, on_timeout="kill").json["vm"]
    assert (created["timeout_seconds"], created["expires_at"], created["on_timeout"]) == (None, None, "kill")
    change_settings(**NOTHING)
    created = call_api("POST", "vms", **microvm_body).json["vm"]
    assert (created["timeout_seconds"], created["on_timeout"]) == (None, "kill")


def test_sandbox_uses_settings_where_the_body_names_nothing(create_sandbox, change_settings, image):
    """The time-outs of 300 s and 15 s hold unless the account set another."""
    for path, seconds in (("/v2/sandboxes", 300), ("/sandboxes", 15)):
        assert create_sandbox(path).status_code == 201
        assert (get_newest().timeout_seconds, get_newest().on_timeout) == (seconds, "kill")
    other = register_image("python", aliases=[])
    change_settings(timeout_seconds=900, on_timeout="pause", image_id=other.id)
    for path in ("/v2/sandboxes", "/sandboxes"):
        assert create_sandbox(path).status_code == 201
        row = get_newest()
        assert (row.timeout_seconds, row.on_timeout, row.image_id) == (900, "pause", other.id)
    assert create_sandbox(timeout=60, autoPause=False, templateID="sandbox").status_code == 201
    row = get_newest()
    assert (row.timeout_seconds, row.on_timeout, row.image_id) == (60, "kill", image.id)
    other.status = "failed"
    session.commit()
    assert create_sandbox().json["templateID"] == image.id, "a default that cannot be used is no default"


def test_sandbox_uses_default_location(create_sandbox, change_settings, cast, call_api):
    """SBX-05, SBX-06: the metadata come before the settings, and the settings before the first location."""
    second = HypervisorGroup(name="zz-second", display_name="Second")
    session.add(second)
    session.commit()
    change_settings(location_id=second.id)
    answer = create_sandbox()
    assert (answer.status_code, answer.json["error_code"]) == (422, "no_microvm_node")
    assert create_sandbox(metadata={"location_id": cast.location.id}).status_code == 201
    assert get_newest().group_id == cast.location.id
    session.get(HypervisorGroup, second.id).microvm_enabled = False
    session.commit()
    assert create_sandbox().status_code == 400


def test_settings_page_saves_and_form_of_micro_vms_begins_with_them(browser_as, image, profile, cast):
    browser = browser_as("owner")
    assert 'href="/microvm-settings"' in browser.get("/microvms").text
    page = browser.get("/microvm-settings").text
    assert ("After 5 minutes" in page, "min 0 s" in page, "Never" in page) == (True, False, False)
    assert "No default" in page
    sent = {"location_id": cast.location.id, "image_id": image.id, "timeout_seconds": "900", "on_timeout": "pause"}
    assert browser.post("/microvm-settings", data=sent).status_code == 303
    assert "Settings saved" in browser.get("/microvm-settings").text
    stored = session.query(MicrovmSettings).one()
    assert {name: str(getattr(stored, name)) for name in sent} == sent
    form = browser.get("/microvms/new").text
    assert '<option value="pause" selected>' in form
    assert '<option value="900" selected>' in form
    empty = dict.fromkeys(sent, "")
    assert browser.post("/microvm-settings", data=empty).status_code == 303
    session.expire_all()
    assert {name: getattr(stored, name) for name in sent} == NOTHING


def test_settings_page_shows_errors_and_missing_permission(browser_as, image):
    answer = browser_as("owner").post("/microvm-settings", data={"image_id": UNKNOWN_ID, "timeout_seconds": "x"})
    assert (answer.status_code, 'id="wrong-timeout_seconds"' in answer.text) == (422, True)
    assert "it needs microvm.manage" in browser_as("viewer").get("/microvm-settings").text
    assert browser_as("viewer").post("/microvm-settings", data={}).status_code == 403


def test_change_is_in_the_audit_log(change_settings, cast):
    change_settings(timeout_seconds=60)
    assert session.query(AuditEntry).filter_by(object_type="microvm_settings").count() == 1


def test_deleted_location_and_image_are_no_defaults_any_more(call_api, change_settings, microvm_body, image, profile):
    change_settings(location_id=microvm_body["location_id"], image_id=image.id, timeout_seconds=60)
    session.delete(image)
    session.commit()
    session.expire_all()
    assert call_api("GET", "settings").json["settings"]["image_id"] is None
    assert profiles.find(profile.hypervisor) is profile
