"""The library of ISOs in both APIs."""

import pytest

from panel.core.db import session
from panel.models import Iso, MediaDownload, Task

DOWNLOAD_FIELDS = {"download_error", "download_error_at", "download_reset_at"}
ISOS_PATHS = {"owner": "/api/isos", "admin": "/api/v1/isos"}


def iso_path(caller, iso_id):
    return f"/api/{'v1/' if caller == 'admin' else ''}iso/{iso_id}"


def unwrap_answer(answer):
    return answer.json.get("iso") or answer.json["data"]


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_iso_create_list_show_and_delete(api_as, run_tasks, node, file_server, caller):
    """ISO-01, ISO-02, ISO-04, ISO-05, ISO-06"""
    answer = api_as(
        caller, "POST", ISOS_PATHS[caller], json={"url": file_server.put("/debian-12.iso"), "name": "Debian 12"}
    )
    assert answer.status_code == 200
    iso = unwrap_answer(answer)
    assert (iso["filename"], iso["name"]) == ("debian-12.iso", "Debian 12")
    assert iso["public"] is (caller == "admin")
    run_tasks()
    [row] = api_as(caller, "GET", ISOS_PATHS[caller]).json["data"]
    shown = unwrap_answer(api_as(caller, "GET", iso_path(caller, iso["id"])))
    assert row.items() <= shown.items()
    assert {"id", "url", "filename", *DOWNLOAD_FIELDS} <= row.keys()
    assert [shown[name] for name in DOWNLOAD_FIELDS] == [None, None, None]
    assert api_as(caller, "DELETE", iso_path(caller, iso["id"])).status_code == 200
    run_tasks()
    assert api_as(caller, "GET", iso_path(caller, iso["id"])).status_code == 404
    assert not [disk for disk in node.disks("default") if disk.name.startswith("iso-")]


@pytest.mark.parametrize("url", ["http://127.0.0.1/a.iso", "ftp://127.0.0.1/a.iso", "/a.iso", "https:///a.iso", ""])
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_iso_url_must_be_https(api_as, file_server, caller, url):
    """ISO-03"""
    answer = api_as(caller, "POST", ISOS_PATHS[caller], json={"url": url})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"url"})


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "[::1]", "localhost", "169.254.169.254", "127.0.0.1:22"])
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_iso_url_with_private_address_is_refused(api_as, caller, host):
    """ISO-17: nodes and workers connect to public addresses only."""
    answer = api_as(caller, "POST", ISOS_PATHS[caller], json={"url": f"https://{host}/a.iso"})
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
@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_iso_filename_with_special_characters_is_refused(api_as, file_server, caller, name):
    """ISO-07"""
    answer = api_as(caller, "POST", ISOS_PATHS[caller], json={"url": file_server.url(), "filename": name})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"filename"})
    if caller == "owner":
        assert answer.json["reason"] == "iso_filename_invalid"
    assert session.query(Iso).count() == 0
    answer = api_as(caller, "POST", ISOS_PATHS[caller], json={"url": file_server.url("/a%20b.iso")})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"filename"})


def test_iso_filename_with_permitted_characters_is_accepted(api_as, file_server):
    """ISO-08"""
    for caller in ISOS_PATHS:
        answer = api_as(
            caller, "POST", ISOS_PATHS[caller], json={"url": file_server.url(), "filename": "My_iso-1.2.iso"}
        )
        assert unwrap_answer(answer)["filename"] == "My_iso-1.2.iso"


def test_customers_see_public_and_own_isos(api_as, file_server):
    """ISO-17"""
    public = unwrap_answer(api_as("admin", "POST", ISOS_PATHS["admin"], json={"url": file_server.url("/public.iso")}))
    hidden = unwrap_answer(
        api_as("admin", "POST", ISOS_PATHS["admin"], json={"url": file_server.url("/h.iso"), "public": False})
    )
    own = unwrap_answer(api_as("owner", "POST", ISOS_PATHS["owner"], json={"url": file_server.url("/own.iso")}))
    names = lambda caller: [iso["filename"] for iso in api_as(caller, "GET", "/api/isos").json["data"]]  # noqa: E731
    assert names("owner") == ["own.iso", "public.iso"]
    assert names("outsider") == ["public.iso"]
    assert [iso["name"] for iso in api_as("owner", "GET", "/api/isos?search=pub").json["data"]] == ["public.iso"]
    assert len(api_as("admin", "GET", ISOS_PATHS["admin"]).json["data"]) == 3
    for caller, iso in (("owner", hidden), ("outsider", own)):
        assert api_as(caller, "GET", iso_path(caller, iso["id"])).status_code == 404
    for caller, iso in (("owner", public), ("outsider", own)):
        assert api_as(caller, "DELETE", iso_path(caller, iso["id"])).status_code == 404
        assert api_as(caller, "POST", iso_path(caller, iso["id"]) + "/retry").status_code == 404
    api_as("admin", "PATCH", iso_path("admin", public["id"]), json={"enabled": False})
    assert names("outsider") == []


def test_operator_updates_iso(api_as, file_server):
    iso = unwrap_answer(api_as("admin", "POST", ISOS_PATHS["admin"], json={"url": file_server.url()}))
    path = iso_path("admin", iso["id"])
    assert api_as("admin", "PATCH", path, json={"name": "Rescue", "public": False}).json["data"]["name"] == "Rescue"
    assert api_as("admin", "PATCH", path, json={"filename": "a b"}).json["errors"].keys() == {"filename"}
    assert api_as("admin", "PATCH", path, json={"size": 1}).json["errors"].keys() == {"size"}


def test_isos_per_account_are_limited(api_as, file_server, monkeypatch):
    monkeypatch.setattr("panel.services.isos.MAX_OWN_ISOS", 2)
    for number in range(2):
        assert api_as("owner", "POST", "/api/isos", json={"url": file_server.url(f"/{number}.iso")}).status_code == 200
    answer = api_as("owner", "POST", "/api/isos", json={"url": file_server.url("/3.iso")})
    assert (answer.status_code, answer.json["reason"]) == (422, "limit_reached")


def test_iso_list_query_count_is_constant(api_as, file_server, queries):
    def count_queries(caller):
        queries.clear()
        api_as(caller, "GET", ISOS_PATHS[caller])
        return len(queries)

    def add(count):
        for number in range(count):
            iso = Iso(name=f"iso-{number}", filename="a.iso", url=file_server.url(), public=True)
            iso.downloads = [MediaDownload(status="ready", volume="x")]
            session.add(iso)
        session.commit()

    add(1)
    few = [count_queries(caller) for caller in ISOS_PATHS]
    add(30)
    assert [count_queries(caller) for caller in ISOS_PATHS] == few
    assert len(api_as("owner", "GET", "/api/isos").json["data"]) == 31


def test_admin_iso_lists_downloads_per_hypervisor(api_as, cast, run_tasks, file_server):
    iso = unwrap_answer(
        api_as("admin", "POST", ISOS_PATHS["admin"], json={"url": file_server.put(content=b"x" * 5000)})
    )
    run_tasks()
    shown = unwrap_answer(api_as("admin", "GET", iso_path("admin", iso["id"])))
    [download] = shown["downloads"]
    assert (download["hypervisor_id"], download["hypervisor_name"]) == (cast.node.id, "node-1")
    assert (download["status"], download["bytes_done"], download["bytes_total"]) == ("ready", 5000, 5000)
    assert shown["size"] == 5000
    assert session.query(Task).filter_by(kind="media_download", status="completed").count() == 1


def test_iso_names_are_unique_per_library(api_as, file_server):
    def add(path, name=None, caller="admin"):
        body = {"url": file_server.put(path)} | ({"name": name} if name else {})
        return api_as(caller, "POST", "/api/v1/isos" if caller == "admin" else "/api/isos", json=body)

    assert add("/a.iso", "Installer").status_code == 200
    refused = add("/b.iso", "Installer")
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["name"])
    names = [add("/d/c.iso").json["data"]["name"], add("/e/c.iso").json["data"]["name"]]
    assert names == ["c.iso", "c.iso (2)"]
    assert add("/f.iso", "Installer", "owner").status_code == 200, "the name is unique per library"
    third = add("/g.iso").json["data"]
    path = f"/api/v1/iso/{third['id']}"
    assert api_as("admin", "PATCH", path, json={"name": "Installer"}).status_code == 422
    assert api_as("admin", "PATCH", path, json={"name": "g.iso", "enabled": True}).status_code == 200
