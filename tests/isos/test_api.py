"""The library of ISOs, by both APIs."""

import pytest

from panel.core.db import session
from panel.models import Iso, MediaDownload, Task

DIAGNOSTICS = {"download_error", "download_error_at", "download_reset_at"}
ISOS = {"owner": "/api/isos", "admin": "/api/v1/isos"}


def iso_at(who, iso_id):
    return f"/api/{'v1/' if who == 'admin' else ''}iso/{iso_id}"


def unwrapped(answer):
    return answer.json.get("iso") or answer.json["data"]


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_an_iso_is_added_listed_shown_and_removed(as_, work, node, library, who):
    """ISO-01, ISO-02, ISO-04, ISO-05, ISO-06"""
    answer = as_(who, "POST", ISOS[who], json={"url": library.put("/debian-12.iso"), "name": "Debian 12"})
    assert answer.status_code == 200
    made = unwrapped(answer)
    assert (made["filename"], made["name"]) == ("debian-12.iso", "Debian 12")
    assert made["public"] is (who == "admin")
    work()
    [row] = as_(who, "GET", ISOS[who]).json["data"]
    shown = unwrapped(as_(who, "GET", iso_at(who, made["id"])))
    assert row.items() <= shown.items()
    assert {"id", "url", "filename", *DIAGNOSTICS} <= row.keys()
    assert [shown[name] for name in DIAGNOSTICS] == [None, None, None]
    assert as_(who, "DELETE", iso_at(who, made["id"])).status_code == 200
    work()
    assert as_(who, "GET", iso_at(who, made["id"])).status_code == 404
    assert not [disk for disk in node.disks("default") if disk.name.startswith("iso-")]


@pytest.mark.parametrize("url", ["http://127.0.0.1/a.iso", "ftp://127.0.0.1/a.iso", "/a.iso", "https:///a.iso", ""])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_only_https_addresses_are_taken(as_, library, who, url):
    """ISO-03"""
    answer = as_(who, "POST", ISOS[who], json={"url": url})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"url"})


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "[::1]", "localhost", "169.254.169.254", "127.0.0.1:22"])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_no_address_leads_inside(as_, who, host):
    """ISO-17: nobody's address makes a node or a worker talk to what is not public."""
    answer = as_(who, "POST", ISOS[who], json={"url": f"https://{host}/a.iso"})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"url"})


@pytest.mark.parametrize(
    "name",
    [
        "a b.iso",
        "a/b.iso",
        "a%20b.iso",
        "ü.iso",
        "a;b.iso",
        "..\\a.iso",
        "a\u202e.iso",
        "a\nb.iso",
        "a.iso\n",
        "\r\n",
        "a" * 256,
    ],
)
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_a_file_name_has_plain_characters_only(as_, library, who, name):
    """ISO-07"""
    answer = as_(who, "POST", ISOS[who], json={"url": library.url(), "filename": name})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"filename"})
    if who == "owner":
        assert answer.json["reason"] == "iso_filename_invalid"
    assert session.query(Iso).count() == 0
    answer = as_(who, "POST", ISOS[who], json={"url": library.url("/a%20b.iso")})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"filename"})


def test_the_permitted_characters_are_accepted(as_, library):
    """ISO-08"""
    for who in ISOS:
        answer = as_(who, "POST", ISOS[who], json={"url": library.url(), "filename": "My_iso-1.2.iso"})
        assert unwrapped(answer)["filename"] == "My_iso-1.2.iso"


def test_customers_see_public_ones_and_their_own(as_, library):
    """ISO-17"""
    public = unwrapped(as_("admin", "POST", ISOS["admin"], json={"url": library.url("/public.iso")}))
    hidden = unwrapped(as_("admin", "POST", ISOS["admin"], json={"url": library.url("/h.iso"), "public": False}))
    own = unwrapped(as_("owner", "POST", ISOS["owner"], json={"url": library.url("/own.iso")}))
    names = lambda who: [iso["filename"] for iso in as_(who, "GET", "/api/isos").json["data"]]  # noqa: E731
    assert names("owner") == ["own.iso", "public.iso"]
    assert names("outsider") == ["public.iso"]
    assert [iso["name"] for iso in as_("owner", "GET", "/api/isos?search=pub").json["data"]] == ["public.iso"]
    assert len(as_("admin", "GET", ISOS["admin"]).json["data"]) == 3
    for who, iso in (("owner", hidden), ("outsider", own)):
        assert as_(who, "GET", iso_at(who, iso["id"])).status_code == 404
    for who, iso in (("owner", public), ("outsider", own)):
        assert as_(who, "DELETE", iso_at(who, iso["id"])).status_code == 404
        assert as_(who, "POST", iso_at(who, iso["id"]) + "/retry").status_code == 404
    as_("admin", "PATCH", iso_at("admin", public["id"]), json={"enabled": False})
    assert names("outsider") == []


def test_an_operator_changes_an_iso(as_, library):
    made = unwrapped(as_("admin", "POST", ISOS["admin"], json={"url": library.url()}))
    path = iso_at("admin", made["id"])
    assert as_("admin", "PATCH", path, json={"name": "Rescue", "public": False}).json["data"]["name"] == "Rescue"
    assert as_("admin", "PATCH", path, json={"filename": "a b"}).json["errors"].keys() == {"filename"}
    assert as_("admin", "PATCH", path, json={"size": 1}).json["errors"].keys() == {"size"}


def test_an_account_has_a_limited_number_of_its_own(as_, library, monkeypatch):
    monkeypatch.setattr("panel.services.isos.MOST_OWN", 2)
    for number in range(2):
        assert as_("owner", "POST", "/api/isos", json={"url": library.url(f"/{number}.iso")}).status_code == 200
    answer = as_("owner", "POST", "/api/isos", json={"url": library.url("/3.iso")})
    assert (answer.status_code, answer.json["reason"]) == (422, "limit_reached")


def test_the_lists_take_the_same_queries_for_many_rows(as_, library, queries):
    def asked(who):
        queries.clear()
        as_(who, "GET", ISOS[who])
        return len(queries)

    def add(count):
        for number in range(count):
            iso = Iso(name=f"iso-{number}", filename="a.iso", url=library.url(), public=True)
            iso.downloads = [MediaDownload(status="ready", volume="x")]
            session.add(iso)
        session.commit()

    add(1)
    few = [asked(who) for who in ISOS]
    add(30)
    assert [asked(who) for who in ISOS] == few
    assert len(as_("owner", "GET", "/api/isos").json["data"]) == 31


def test_the_admin_s_show_says_where_the_file_is(as_, cast, work, library):
    made = unwrapped(as_("admin", "POST", ISOS["admin"], json={"url": library.put(content=b"x" * 5000)}))
    work()
    shown = unwrapped(as_("admin", "GET", iso_at("admin", made["id"])))
    [download] = shown["downloads"]
    assert (download["hypervisor_id"], download["hypervisor_name"]) == (cast.node.id, "node-1")
    assert (download["status"], download["bytes_done"], download["bytes_total"]) == ("ready", 5000, 5000)
    assert shown["size"] == 5000
    assert session.query(Task).filter_by(kind="media_download", status="completed").count() == 1


def test_names_are_unique_because_programs_look_isos_up_by_them(as_, library):
    def add(path, name=None, who="admin"):
        body = {"url": library.put(path)} | ({"name": name} if name else {})
        return as_(who, "POST", "/api/v1/isos" if who == "admin" else "/api/isos", json=body)

    assert add("/a.iso", "Installer").status_code == 200
    refused = add("/b.iso", "Installer")
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["name"])
    names = [add("/d/c.iso").json["data"]["name"], add("/e/c.iso").json["data"]["name"]]
    assert names == ["c.iso", "c.iso (2)"]
    assert add("/f.iso", "Installer", "owner").status_code == 200, "another library"
    third = add("/g.iso").json["data"]
    path = f"/api/v1/iso/{third['id']}"
    assert as_("admin", "PATCH", path, json={"name": "Installer"}).status_code == 422
    assert as_("admin", "PATCH", path, json={"name": "g.iso", "enabled": True}).status_code == 200
