"""Which commits publish which changes for open pages, and who may see them."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import delete, select

from panel.auth import live_viewers
from panel.core import clock, jobs, live_changes
from panel.core.config import ROOT
from panel.core.db import session
from panel.core.live_changes import Change, publish
from panel.models import Account, LoginSession, Role
from panel.services import sessions, settings
from panel.services.instances import state_reports

pytest_plugins = ["tests.support.team"]
VIEW_INSTANCES = ["instances.view"]


@pytest.fixture
def published(cast, monkeypatch):
    """The changes that commits published."""
    changes = []
    monkeypatch.setattr(live_changes, "publish", changes.extend)
    return changes


@pytest.fixture
def load_viewer(cast):
    """Return a function that signs in as one of the cast and returns the viewer; None when there is none."""

    def sign_in(caller, **options):
        sessions.start(getattr(cast, caller), ip="127.0.0.1", user_agent="test", **options)
        session.commit()
        row = session.scalars(select(LoginSession).order_by(LoginSession.id.desc()).limit(1)).one()
        return live_viewers.load_viewers([row.id]).get(row.id)

    return sign_in


def list_changes(published):
    return [(change.table, change.id, change.related_id) for change in published]


def test_new_instance_is_published_with_its_owner(cast, published):
    instance = cast.instance()
    assert Change(cast.owner.id, "instances", instance.id) in published


def test_task_is_published_when_requested_and_when_done(api_as, cast, run_tasks, published):
    instance = cast.instance()
    published.clear()
    path = f"/api/instance/{instance.id}/deploy"
    task_id = api_as("owner", "POST", path, json={"image_id": cast.image.id}).json["task_id"]
    assert ("tasks", task_id, instance.id) in list_changes(published)
    published.clear()
    run_tasks()
    assert {("tasks", task_id, instance.id), ("instances", instance.id, "")} <= set(list_changes(published))


def test_refused_request_publishes_nothing(api_as, cast, published):
    instance = cast.instance()
    published.clear()
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/power/restart").status_code == 409
    assert published == []


def test_report_without_a_change_publishes_nothing(cast, published):
    instance = cast.instance()
    published.clear()
    state_reports.report_power(instance, instance.power, at=clock.now())
    session.commit()
    assert published == []
    state_reports.report_power(instance, "on", at=clock.now())
    session.commit()
    assert list_changes(published) == [("instances", instance.id, "")]


def test_rolled_back_changes_are_not_published(cast, published):
    instance = cast.instance()
    published.clear()
    savepoint = session.begin_nested()
    instance.notes = "changed"
    session.flush()
    savepoint.rollback()
    session.commit()
    assert published == []


def test_large_message_names_only_tables(rolled_back_app, cast, monkeypatch):
    messages, redis = [], rolled_back_app.context.redis
    monkeypatch.setattr(rolled_back_app.context, "redis_paused_until", 0)
    monkeypatch.setattr(redis, "publish", lambda channel, message: messages.append(message))
    monkeypatch.setattr(live_changes, "MAX_CHANGES_PER_MESSAGE", 2)
    publish([Change("a", "tasks", str(number)) for number in range(3)])
    assert live_changes.parse(messages[0]) == [Change("a", "tasks")]


def test_owner_and_operator_get_a_change_and_outsider_does_not(cast, load_viewer):
    change = Change(cast.owner.id, "instances", cast.instance().id)
    visible = {
        caller: load_viewer(caller).list_visible([change]) for caller in ("owner", "viewer", "admin", "outsider")
    }
    assert visible == {"owner": [change], "viewer": [change], "admin": [change], "outsider": []}


def test_member_gets_changes_of_chosen_resources(cast, add_member, load_viewer):
    chosen, other = cast.instance(), cast.instance()
    add_member("chooser", VIEW_INSTANCES, reach="chosen", grants=[chosen])
    tasks = [jobs.enqueue("instance_start", "instance", row, lock="light", actor="test") for row in (chosen, other)]
    session.commit()
    changes = [Change.of_row(row) for row in (chosen, other, *tasks)]
    assert load_viewer("chooser").list_visible(changes) == [changes[0], changes[2]]


def test_member_gets_changes_only_with_permission(cast, add_member, load_viewer):
    instance = cast.instance()
    member = add_member("helper", ["volumes.view"])
    assert load_viewer("helper").list_visible([Change.of_row(instance)]) == []
    session.get(Role, member.role_id).permissions = VIEW_INSTANCES
    session.commit()
    assert load_viewer("helper").list_visible([Change.of_row(instance)]) == [Change.of_row(instance)]


def test_customers_get_no_changes_of_platform_rows(cast, load_viewer):
    changes = [Change(None, "hypervisors", cast.node.id), Change(None, "images", cast.image.id)]
    assert (load_viewer("owner").list_visible(changes), load_viewer("admin").list_visible(changes)) == ([], changes)


def test_changes_of_other_tables_are_visible_to_nobody(cast, load_viewer):
    assert load_viewer("admin").list_visible([Change(cast.admin.id, "tokens", "x")]) == []


def test_ended_session_has_no_viewer(cast, load_viewer):
    assert load_viewer("owner")
    [session_id] = session.scalars(select(LoginSession.id)).all()
    session.execute(delete(LoginSession))
    assert live_viewers.load_viewers([session_id]) == {}
    assert load_viewer("owner", lifetime=timedelta(0)) is None


def test_impersonation_sees_what_the_customer_sees_and_ends_with_the_right(cast, load_viewer):
    change = Change(cast.outsider.id, "instances", "x")
    viewer = load_viewer("owner", impersonator=cast.admin)
    assert (viewer.access.id, viewer.list_visible([change])) == (cast.owner.id, [])
    session.get(Account, cast.admin.id).operator_role = "read_only"
    assert load_viewer("owner", impersonator=session.get(Account, cast.admin.id)) is None


def test_person_who_must_set_up_a_second_factor_has_no_viewer(cast, load_viewer):
    settings.update({"require_second_factor": "operators"})
    assert (load_viewer("admin"), load_viewer("owner") is None) == (None, False)


def test_viewers_are_loaded_with_a_constant_number_of_queries(cast, load_viewer, queries):
    def count_queries(ids):
        queries.clear()
        live_viewers.load_viewers(ids)
        return len(queries)

    for caller in ("owner", "outsider", "viewer"):
        load_viewer(caller)
    ids = session.scalars(select(LoginSession.id)).all()
    session.expunge_all()
    assert count_queries(ids) <= count_queries(ids[:1])


def test_live_page_parts_name_known_tables_and_have_an_id():
    parts = [
        part
        for path in ROOT.glob("templates/**/*.html")
        for part in re.findall(r"<\w+[^>]*\bdata-live=[^>]*", path.read_text())
    ]
    assert len(parts) > 30
    for part in parts:
        assert re.search(r"\bid=", part), part
        assert re.search(r"\blive\b,|, live\b|'live, '", part.partition("hx-trigger")[2]), part
    texts = [
        text
        for path in ROOT.glob("templates/**/*.html")
        for text in re.findall(r'(?:data-|, )live="([a-z_ ]*)"', path.read_text())
    ]
    assert {table for text in texts for table in text.split()} <= live_viewers.LIVE_MODELS.keys()


def test_stream_is_refused_without_error(browser_as):
    assert [browser_as(caller).get("/live?since=1").status_code for caller in (None, "owner")] == [204, 204]


def test_pages_name_the_stream_only_for_people_who_are_signed_in(browser_as):
    assert [
        "live.js" in browser_as(caller).get(path).text for caller, path in ((None, "/sign-in"), ("owner", "/"))
    ] == [
        False,
        True,
    ]
