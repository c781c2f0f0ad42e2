"""Lists of backups: filters, sorts, and who sees which."""

from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Image, InstanceBackup
from panel.services import backup_destinations
from tests.support.team import add_member  # noqa: F401  (fixture)


@pytest.fixture
def list_names(api_as):
    """Return a function that lists the names of backups: `list_names("?protected=true")`."""

    def read(query="", caller="owner", path="/api/backups"):
        answer = api_as(caller, "GET", f"{path}{query}")
        assert answer.status_code == 200, answer.text
        return [row["name"] for row in answer.json["data"]]

    return read


def test_every_filter_finds_its_backups(list_names, add_row, machine, destination, tmp_path):
    """BAK-14, BAK-16, BAK-17, BAK-18"""
    other = backup_destinations.create(name="b2", storage_type="local", config={"path": str(tmp_path / "2")})
    add_row("old", age=10, description="by Ada", instance_deleted_at=clock.now(), protected=True)
    add_row("claimed", age=5, delete_claimed_at=clock.now(), backup_type="incremental")
    add_row("failed", age=4, status="failed", destination=other)
    add_row("live", instance_id=machine.id, recorded_hostname="former.example.com")
    everything = ["live", "failed", "claimed", "old"]
    day = lambda age: f"{clock.now() - timedelta(days=age):%Y-%m-%dT%H:%M:%SZ}"  # noqa: E731
    expected = {
        "": everything,
        "?search=ADA": ["old"],
        "?search=web.example": ["live"],
        "?search=former": ["live"],
        "?search=%25": [],
        f"?instance_id={machine.id}": ["live"],
        f"?backup_storage_id={other.id}": ["failed"],
        "?storage_type=local": everything,
        "?storage_type=s3": [],
        "?backup_type=incremental": ["claimed"],
        "?created=false": ["failed"],
        "?created=true": ["live", "claimed", "old"],
        "?verification=none": everything,
        "?verification=ok": [],
        "?protected=true": ["old"],
        "?protected=false": ["live", "failed", "claimed"],
        "?claim=claimed": ["claimed"],
        "?claim=none": ["live", "failed", "old"],
        "?instance_state=deleted": ["old"],
        "?instance_state=live": ["live", "failed", "claimed"],
        f"?created_from={day(6)}&created_to={day(4.5)}": ["claimed"],
        "?protected=false&backup_type=full&created=true": ["live"],
    }
    for query, names in expected.items():
        assert list_names(query) == names, query
        admin_names = list_names(query, "admin", "/api/v1/instance-backups")
        assert admin_names == names, query
    assert list_names("", path=f"/api/instance/{machine.id}/backups") == ["live"]
    assert list_names("?protected=true", path=f"/api/instance/{machine.id}/backups") == []


def test_sorts(list_names, add_row):
    """BAK-19"""
    for name, size in (("b", 2), ("a", 3), ("c", 1)):
        add_row(name, size=size)
    for sort, names in {"created_at": "bac", "size": "cba", "name": "abc", "rbs_backup_time": "bac"}.items():
        assert list_names(f"?sort={sort}&dir=asc") == list(names)
        assert list_names(f"?sort={sort}&dir=desc") == list(reversed(names))
        assert list_names(f"?sort={sort}") == list(reversed(names))


def test_pages(api_as, add_row):
    """BAK-15"""
    for name in "abc":
        add_row(name)
    answer = api_as("owner", "GET", "/api/backups?per_page=1&page=2").json
    assert ([row["name"] for row in answer["data"]], answer["total"], answer["last_page"]) == (["b"], 3, 3)


@pytest.mark.parametrize(
    "query",
    [
        "storage_type=tape",
        "backup_type=x",
        "created=maybe",
        "verification=x",
        "protected=x",
        "claim=x",
        "instance_state=x",
        "created_from=yesterday",
        "created_to=1",
        "sort=id",
        "dir=up",
    ],
)
def test_wrong_filters_are_refused(api_as, destination, query):
    for caller, path in (("owner", "/api/backups"), ("admin", "/api/v1/instance-backups")):
        answer = api_as(caller, "GET", f"{path}?{query}")
        assert (answer.status_code, list(answer.json["errors"])) == (422, [query.partition("=")[0]])


def test_cleanup_pending_lists_unconfirmed_backups_of_destroyed_instances(api_as, add_row, list_names):
    """BAK-62"""
    add_row("pending", instance_deleted_at=clock.now(), delete_claimed_at=clock.now())
    add_row("kept", instance_deleted_at=clock.now())
    add_row("claimed", delete_claimed_at=clock.now())
    assert list_names("?issue=cleanup_pending", "admin", "/api/v1/instance-backups") == ["pending"]
    rows = api_as("admin", "GET", "/api/v1/instance-backups").json["data"]
    assert [row["name"] for row in rows if row["instance_cleanup_pending"]] == ["pending"]
    assert api_as("admin", "GET", "/api/v1/instance-backups?issue=x").status_code == 422


def test_appliances_are_left_out_for_customers(api_as, back_up, machine, list_names):
    """BAK-20"""
    image = session.get(Image, machine.image_id)
    image.purpose = "load_balancer"
    session.commit()
    api_as("owner", "POST", f"/api/instance/{machine.id}/backups", json={"name": "appliance"})
    assert list_names() == []
    assert list_names("", "admin", "/api/v1/instance-backups") == ["appliance"]
    backup = session.query(InstanceBackup).one()
    assert api_as("owner", "GET", f"/api/backup/{backup.id}").status_code == 404
    image.purpose = "general"
    session.commit()


def test_scopes_of_tokens(api_as, add_row, cast):
    """BAK-21, BAK-22"""
    rows = [add_row("one"), add_row("two")]
    for name, scope in (("account", "account:read"), ("reads", "instances:read"), ("writes", "instances:write")):
        answer = api_as("owner", "POST", "/api/api-tokens", json={"name": name, "scopes": [scope]})
        cast.tokens[name] = answer.json["token"]
    lists = {name: api_as(name, "GET", "/api/backups").status_code for name in ("account", "reads", "writes")}
    assert lists == {"account": 403, "reads": 200, "writes": 403}
    requests = ("DELETE", f"/api/backup/{rows[0].id}", {}), ("POST", "/api/backups/destroy", {"backups": [rows[1].id]})
    for method, path, body in requests:
        for name in ("account", "reads"):
            assert api_as(name, method, path, json=body).status_code == 403
        assert api_as("writes", method, path, json=body).status_code != 403
    assert [api_as("reads", "GET", f"/api/backup/{row.id}").status_code for row in rows] == [404, 404]


def test_lists_need_a_constant_number_of_queries(api_as, add_row, machine, queries):
    def count(caller, path):
        queries.clear()
        assert api_as(caller, "GET", path).status_code == 200
        return len(queries)

    paths = [
        ("owner", "/api/backups"),
        ("admin", "/api/v1/instance-backups"),
        ("owner", f"/api/instance/{machine.id}/backups"),
    ]
    add_row("first", instance_id=machine.id)
    before = [count(*path) for path in paths]
    for number in range(5):
        add_row(f"n{number}", instance_id=machine.id, delete_claimed_at=clock.now())
    assert [count(*path) for path in paths] == before


def test_foreign_backups_are_not_found(api_as, add_row, machine, list_names):
    """BAK-25"""
    foreign = add_row("foreign", caller="outsider")
    assert list_names() == []
    for method, path in (
        ("GET", f"/api/backup/{foreign.id}"),
        ("DELETE", f"/api/backup/{foreign.id}"),
        ("GET", f"/api/instance/{machine.id}/backup/{foreign.id}"),
        ("DELETE", f"/api/instance/{machine.id}/backup/{foreign.id}"),
        ("PATCH", f"/api/instance/{machine.id}/backup/{foreign.id}/protected"),
    ):
        body = {"json": {"protected": True}} if method == "PATCH" else {}
        assert api_as("owner", method, path, **body).status_code == 404, path
    assert session.get(InstanceBackup, foreign.id).delete_claimed_at is None


def test_member_with_chosen_instances_reaches_their_backups_only(api_as, add_row, add_member, cast, machine):
    chosen = cast.instance()
    own, other = add_row("own", instance_id=chosen.id), add_row("other", instance_id=machine.id)
    permissions = ["instances.view", "instances.backups"]
    member = add_member("chooser", permissions, "chosen")
    body = {"reach": "chosen", "resource_ids": [chosen.id]}
    assert api_as("owner", "PATCH", f"/api/team/subuser/{member.id}/role", json=body).status_code == 200
    rows = api_as("chooser", "GET", "/api/backups").json["data"]
    assert [row["name"] for row in rows] == ["own"]
    assert api_as("chooser", "GET", f"/api/backup/{own.id}").status_code == 200
    for method in ("GET", "DELETE"):
        assert api_as("chooser", method, f"/api/backup/{other.id}").status_code == 404
    bulk = api_as("chooser", "POST", "/api/backups/destroy", json={"backups": [other.id]})
    assert (bulk.status_code, bulk.json["data"]["results"]) == (200, [])
    assert session.get(InstanceBackup, other.id).delete_claimed_at is None


def test_member_needs_permission_for_each_operation(api_as, add_row, machine):
    """The viewer may see backups, but not create, protect or delete them."""
    backup = add_row("own", instance_id=machine.id)
    path = f"/api/instance/{machine.id}"
    assert api_as("viewer", "GET", f"/api/backup/{backup.id}").status_code == 200
    for method, operation, body in (
        ("POST", f"{path}/backups", {}),
        ("PATCH", f"{path}/backup/{backup.id}/protected", {"protected": True}),
        ("DELETE", f"{path}/backup/{backup.id}", None),
        ("DELETE", f"/api/backup/{backup.id}", None),
        ("POST", "/api/backups/destroy", {"backups": [backup.id]}),
        ("POST", f"{path}/backups/destroy", {"backups": [backup.id]}),
    ):
        assert api_as("viewer", method, operation, json=body).status_code == 403, operation


def test_new_owner_does_not_see_backups_of_the_former_one(api_as, back_up, machine, cast, list_names):
    row = back_up(name="private")
    answer = api_as("admin", "PUT", f"/api/v1/instance/{machine.id}/modify/user/{cast.outsider.id}")
    assert answer.status_code == 200, answer.text
    machine.hostname = "secret.example.com"
    session.commit()
    assert list_names("", "outsider") == []
    assert list_names("", "outsider", f"/api/instance/{machine.id}/backups") == []
    shown = api_as("owner", "GET", f"/api/backup/{row['id']}").json["backup"]
    assert shown["instance_hostname"] == "web.example.com", "the host name of the former owner"
