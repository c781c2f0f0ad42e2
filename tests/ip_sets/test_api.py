"""IP sets in the API, in the format that existing clients expect."""

import pytest

from tests.support.security_groups import HTTP_RULE

IP_SETS_PATH = "/api/ip-sets"


@pytest.fixture
def create_ip_set(api_as):
    def make(name="Offices", caller="owner", version="ipv4", entries=()):
        ip_set = api_as(caller, "POST", IP_SETS_PATH, json={"name": name, "ip_version": version}).json["ip_set"]
        for cidr in entries:
            assert api_as(caller, "POST", ip_set_path(ip_set, "entries"), json={"cidr": cidr}).status_code == 200
        return ip_set

    return make


def ip_set_path(ip_set, *parts):
    return "/".join([f"/api/ip-set/{ip_set['id']}", *parts])


def test_ip_set_create_read_update_and_delete(api_as, create_ip_set):
    ip_set = create_ip_set()
    assert (ip_set["description"], ip_set["entries"], ip_set["ip_version"]) == (None, [], "ipv4")
    changed = api_as("owner", "PATCH", ip_set_path(ip_set), json={"description": "Ours"}).json["ip_set"]
    assert (changed["name"], changed["description"]) == ("Offices", "Ours")
    assert (
        api_as("owner", "PATCH", ip_set_path(ip_set), json={"ip_version": "ipv6"}).json["ip_set"]["ip_version"]
        == "ipv6"
    )
    assert api_as("owner", "DELETE", ip_set_path(ip_set)).json["success"] is True
    assert api_as("owner", "GET", ip_set_path(ip_set)).status_code == 404


def test_ip_set_entries_are_added_and_deleted(api_as, create_ip_set):
    ip_set = create_ip_set()
    entry = api_as(
        "owner", "POST", ip_set_path(ip_set, "entries"), json={"cidr": "203.0.113.0/24", "description": "Berlin"}
    ).json
    assert {name: entry["entry"][name] for name in ("cidr", "description")} == {
        "cidr": "203.0.113.0/24",
        "description": "Berlin",
    }
    bare = api_as("owner", "POST", ip_set_path(ip_set, "entries"), json={"cidr": "198.51.100.7"}).json["entry"]
    assert (bare["cidr"], bare["description"]) == ("198.51.100.7/32", None)
    shown = api_as("owner", "GET", ip_set_path(ip_set)).json["ip_set"]
    assert shown["entries"] == [entry["entry"], bare]
    [row] = api_as("owner", "GET", IP_SETS_PATH).json["data"]
    assert (row["entries_count"], row["rules_count"]) == (2, 0)
    assert api_as("owner", "DELETE", ip_set_path(ip_set, "entry", bare["id"])).json["success"] is True
    assert api_as("owner", "DELETE", ip_set_path(ip_set, "entry", bare["id"])).status_code == 404
    assert api_as("owner", "GET", ip_set_path(ip_set)).json["ip_set"]["entries"] == [entry["entry"]]


@pytest.mark.parametrize("cidr", ["2001:db8::/32", "203.0.113.0/33", "here", "203.0.113.0/24"])
def test_invalid_ip_set_entry_is_refused(api_as, create_ip_set, cidr):
    ip_set = create_ip_set(entries=["203.0.113.0/24"])
    answer = api_as("owner", "POST", ip_set_path(ip_set, "entries"), json={"cidr": cidr})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["cidr"])


def test_bulk_add_creates_valid_entries_and_reports_others(api_as, create_ip_set):
    ip_set = create_ip_set(entries=["203.0.113.0/24"])
    body = {"cidrs": ["10.0.0.0/8", "203.0.113.0/24", "nonsense", "10.0.0.0/8", "192.0.2.1"]}
    answer = api_as("owner", "POST", ip_set_path(ip_set, "bulk-add"), json=body).json
    assert [entry["cidr"] for entry in answer["created"]] == ["10.0.0.0/8", "192.0.2.1/32"]
    assert [error["cidr"] for error in answer["errors"]] == ["203.0.113.0/24", "nonsense", "10.0.0.0/8"]
    assert all(error["message"] for error in answer["errors"])
    refused = api_as("owner", "POST", ip_set_path(ip_set, "bulk-add"), json={"cidrs": ["10.0.0.0/8"]}).json
    assert (refused["created"], len(refused["errors"])) == ([], 1)


def test_ip_set_entries_are_limited(api_as, create_ip_set):
    ip_set = create_ip_set()
    answer = api_as(
        "owner", "POST", ip_set_path(ip_set, "bulk-add"), json={"cidrs": [f"10.0.{n}.0/24" for n in range(256)]}
    ).json
    assert (len(answer["created"]), len(answer["errors"])) == (250, 6)


def test_ip_set_in_use_is_not_deleted(api_as, create_ip_set):
    ip_set = create_ip_set()
    group = api_as("owner", "POST", "/api/security-groups", json={"name": "Web"}).json["security_group"]
    rule = api_as(
        "owner", "POST", f"/api/security-group/{group['id']}/rules", json={**HTTP_RULE, "ip_set_id": ip_set["id"]}
    )
    assert api_as("owner", "GET", IP_SETS_PATH).json["data"][0]["rules_count"] == 1
    assert api_as("owner", "DELETE", ip_set_path(ip_set)).status_code == 409
    assert api_as("owner", "PATCH", ip_set_path(ip_set), json={"ip_version": "ipv6"}).status_code == 422
    api_as("owner", "DELETE", f"/api/security-group/{group['id']}/rule/{rule.json['rule']['id']}")
    assert api_as("owner", "DELETE", ip_set_path(ip_set)).status_code == 200


def test_ip_version_is_fixed_while_entries_exist(api_as, create_ip_set):
    ip_set = create_ip_set(entries=["10.0.0.0/8"])
    answer = api_as("owner", "PATCH", ip_set_path(ip_set), json={"ip_version": "ipv6"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ip_version"])
    assert api_as("owner", "PATCH", ip_set_path(ip_set), json={"ip_version": "ipv4", "name": "x"}).status_code == 200


def test_rule_requires_ip_set_of_same_version(api_as, create_ip_set):
    group = api_as("owner", "POST", "/api/security-groups", json={"name": "Web"}).json["security_group"]
    body = {**HTTP_RULE, "ip_set_id": create_ip_set(version="ipv6")["id"]}
    answer = api_as("owner", "POST", f"/api/security-group/{group['id']}/rules", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["ip_set_id"])


def test_ip_set_of_other_account_is_not_found(api_as, create_ip_set):
    ip_set = create_ip_set(entries=["10.0.0.0/8"])
    assert api_as("outsider", "GET", IP_SETS_PATH).json["data"] == []
    bodies = {"entries": {"cidr": "10.0.0.0/8"}, "bulk-add": {"cidrs": ["10.0.0.0/8"]}}
    for method, *parts in (("GET",), ("PATCH",), ("DELETE",), ("POST", "entries"), ("POST", "bulk-add")):
        body = bodies.get(parts[0]) if parts else {"PATCH": {"name": "x"}}.get(method)
        assert api_as("outsider", method, ip_set_path(ip_set, *parts), json=body).status_code == 404


def test_platform_ip_set_is_usable_but_read_only(api_as):
    body = {"name": "Monitors", "ip_version": "ipv4"}
    ip_set = api_as("admin", "POST", "/api/v1/ip-sets", json=body).json["data"]
    admin = f"/api/v1/ip-set/{ip_set['id']}"
    entry = api_as("admin", "POST", f"{admin}/entries", json={"cidr": "10.0.0.0/8"}).json["data"]
    assert api_as("admin", "POST", f"{admin}/bulk-entries", json={"cidrs": ["x", "192.0.2.0/24"]}).json["data"][
        "errors"
    ]
    shown = api_as("owner", "GET", ip_set_path(ip_set)).json["ip_set"]
    assert ([entry["cidr"] for entry in shown["entries"]], shown["is_global"]) == (["10.0.0.0/8", "192.0.2.0/24"], True)
    for method, *parts in (("PATCH",), ("DELETE",), ("POST", "entries"), ("POST", "bulk-add")):
        bodies = {"entries": {"cidr": "192.0.2.0/24"}, "bulk-add": {"cidrs": ["192.0.2.0/24"]}}
        body = bodies.get(parts[0]) if parts else {"PATCH": {"name": "x"}}.get(method)
        assert api_as("owner", method, ip_set_path(ip_set, *parts), json=body).status_code == 403
    assert api_as("owner", "DELETE", ip_set_path(ip_set, "entry", entry["id"])).status_code == 403
    assert api_as("admin", "PATCH", admin, json={"description": "x"}).json["data"]["description"] == "x"
    assert api_as("admin", "DELETE", f"{admin}/entry/{entry['id']}").status_code == 200
    [row] = api_as("admin", "GET", "/api/v1/ip-sets").json["data"]
    assert (row["entries_count"], row["account_id"]) == (1, None)
    assert api_as("admin", "GET", admin).status_code == 200
    assert api_as("admin", "DELETE", admin).status_code == 200
