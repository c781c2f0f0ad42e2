"""What every list offers: columns to sort by, a CSV file of what is shown, and saved filters."""

import csv
import io
import threading

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import SavedFilter
from panel.services import saved_filters
from panel.web import csv_export, list_csv, paging


@pytest.fixture
def instances(cast):
    return [cast.instance(display_name=name) for name in ("bravo", "=alpha", "charlie")]


def test_instances_are_sorted_by_name_in_both_directions(browser_as, instances):
    for order, names in (("name", ["=alpha", "bravo", "charlie"]), ("-name", ["charlie", "bravo", "=alpha"])):
        text = browser_as("owner").get(f"/instances?sort_by={order}").text
        assert sorted(names, key=text.index) == names
        assert f'aria-sort="{"descending" if order[0] == "-" else "ascending"}"' in text
    assert "aria-sort" in browser_as("owner").get("/instances?sort_by=notes").text  # unknown: the default order


@pytest.mark.parametrize(("caller", "path"), [("owner", "/instances"), ("admin", "/admin/instances")])
def test_instances_are_sorted_by_size(browser_as, instances, caller, path):
    for instance, ram in zip(instances, (2048, 512, 1024), strict=True):
        instance.ram = ram
    session.commit()
    for order, names in (("size", ["=alpha", "charlie", "bravo"]), ("-size", ["bravo", "charlie", "=alpha"])):
        text = browser_as(caller).get(f"{path}?sort_by={order}").text
        assert sorted(names, key=text.index) == names


def read_csv(answer):
    assert answer.status_code == 200
    assert answer.mimetype == "text/csv"
    assert answer.text.startswith("\ufeff")
    return list(csv.DictReader(io.StringIO(answer.text[1:])))


def test_csv_of_a_list_has_its_filter_and_no_formulas(browser_as, instances):
    rows = read_csv(browser_as("owner").get("/instances?search=alpha&format=csv"))
    assert [(row["Name"], row["Name: details"]) for row in rows] == [("'=alpha", instances[1].hostname)]
    assert rows[0]["Created"].startswith("20")
    assert "Select" not in str(rows)


def test_csv_of_an_empty_list_has_the_names_of_its_columns(browser_as, instances):
    for path in (
        "/instances?search=nothing&format=csv",
        "/volumes?format=csv",
        "/admin/instances?search=no&format=csv",
    ):
        answer = browser_as("admin" if "admin" in path else "owner").get(path)
        name, date = answer.headers["Content-Disposition"].partition("filename=")[2].strip('"').split("-", 1)
        assert (name, date) == (path.split("?")[0].split("/")[-1], f"{clock.now():%Y-%m-%d}.csv")
        assert read_csv(answer) == []
        head = next(csv.reader(io.StringIO(answer.text[1:])))
        assert "Name" in head
        assert "" not in head


def test_csv_separates_the_lines_of_a_cell():
    markup = """<table><tr><th>Name</th><th>May change</th><th>Size</th></tr><tr>
        <td><a>net</a><div class="small">Networks <span class="badge">a</span><span class="badge">b</span></div></td>
        <td><div>Change <b>plans</b></div><div>Change images</div></td><td class="small">1 GB</td></tr></table>"""
    _head, rows = list_csv.read_table(markup)
    assert rows == [[("net", "Networks; a; b"), ("Change plans; Change images", ""), ("1 GB", "")]]


@pytest.mark.parametrize(("caller", "path"), [("owner", "/instances"), ("admin", "/admin/instances")])
def test_csv_has_all_rows_and_reads_one_page_at_a_time(browser_as, instances, cast, caller, path, monkeypatch):
    for number in range(4):
        cast.instance(display_name=f"more-{number}")
    monkeypatch.setattr(paging, "CSV_ROWS_PER_PAGE", 3)
    loaded = []
    read_table = list_csv.read_table
    monkeypatch.setattr(list_csv, "read_table", lambda markup: loaded.append(read_table(markup)) or loaded[-1])
    names = [row["Name"] for row in read_csv(browser_as(caller).get(f"{path}?sort_by=name&format=csv"))]
    assert names == ["'=alpha", "bravo", "charlie", "more-0", "more-1", "more-2", "more-3"]
    assert [len(rows) for _head, rows in loaded] == [3, 3, 1]
    monkeypatch.setattr(list_csv, "MAX_CSV_PAGES", 2)
    assert len(read_csv(browser_as(caller).get(f"{path}?format=csv"))) == 6


def test_downloads_at_the_same_time_are_limited(browser_as, instances, monkeypatch):
    monkeypatch.setattr(csv_export, "export_slots", threading.BoundedSemaphore(1))
    first = browser_as("owner").get("/instances?format=csv")
    refused = browser_as("owner").get("/instances?format=csv")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, str(csv_export.RETRY_SECONDS))
    assert len(read_csv(first)) == 3
    browser_as("owner").get("/instances?format=csv").close()
    assert len(read_csv(browser_as("owner").get("/instances?format=csv"))) == 3


def test_saved_filter_opens_the_list_and_belongs_to_one_person(browser_as, cast, instances):
    form = {"name": "mine", "page": "instances.index", "query": "search=alpha&page=2&state="}
    answer = browser_as("owner").post("/saved-filters", data=form)
    assert answer.headers["Location"] == "/instances?search=alpha"
    assert 'href="/instances?search=alpha">mine' in browser_as("owner").get("/instances").text
    assert ">mine<" not in browser_as("member").get("/instances").text
    saved = session.scalars(select(SavedFilter)).one()
    assert browser_as("member").post(f"/saved-filters/{saved.id}/delete").status_code == 404
    assert browser_as("owner").post(f"/saved-filters/{saved.id}/delete").status_code == 303


@pytest.mark.parametrize(
    "changes",
    [
        {"page": "nothing.index"},
        {"page": "instances.show"},
        {"page": "sign_in.start"},
        {"page": "overview.show"},
        {"page": "admin_instances.index"},
        {"query": "page=2"},
        {"query": "&".join(f"a{number}=1" for number in range(51))},
        {"name": ""},
    ],
)
def test_wrong_filters_are_refused(browser_as, changes):
    form = {"name": "mine", "page": "instances.index", "query": "search=alpha"} | changes
    answer = browser_as("owner").post("/saved-filters", data=form)
    assert answer.status_code == 422
    assert session.scalars(select(SavedFilter)).all() == []


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_filters_are_saved_for_all_lists(app, browser_as, unlimited_rates, monkeypatch, caller):
    monkeypatch.setattr(saved_filters, "MAX_SAVED_FILTERS", 100)
    browser = browser_as(caller)
    for rule in app.url_map.iter_rules():
        if rule.arguments or "GET" not in rule.methods or rule.rule.startswith("/admin") is not (caller == "admin"):
            continue
        if rule.rule.startswith(("/api", "/static")) or rule.endpoint == "admin_mail_templates.index":
            continue
        answer = browser.get(f"{rule.rule}?format=csv")
        is_list = answer.mimetype == "text/csv" and not rule.rule.endswith((".csv", "export"))
        answer.close()
        saved = browser.post("/saved-filters", data={"name": "a", "page": rule.endpoint, "query": "search=a"})
        assert saved.status_code == (303 if is_list else 422), rule.endpoint


def test_saved_filters_are_limited(cast, rolled_back_app):
    for number in range(saved_filters.MAX_SAVED_FILTERS):
        saved_filters.save(cast.owner, page="instances.index", name=str(number), query="search=a")
    with pytest.raises(saved_filters.Invalid):
        saved_filters.save(cast.owner, page="volumes.index", name="more", query="search=a")
    saved_filters.save(cast.owner, page="instances.index", name="0", query="search=b")
