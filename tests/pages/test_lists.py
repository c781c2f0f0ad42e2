"""What every list offers: columns to sort by, a CSV file of what is shown, and saved filters."""

import csv
import io
import threading

import pytest
from sqlalchemy import select

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
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_csv_of_a_list_has_its_filter_and_no_formulas(browser_as, instances):
    rows = read_csv(browser_as("owner").get("/instances?search=alpha&format=csv"))
    assert [row["Name"].split()[0] for row in rows] == ["'=alpha"]
    assert rows[0]["Age"].startswith("20")
    assert "Select" not in str(rows)
    assert read_csv(browser_as("outsider").get("/instances?format=csv")) == []


@pytest.mark.parametrize(("caller", "path"), [("owner", "/instances"), ("admin", "/admin/instances")])
def test_csv_has_all_rows_and_reads_one_page_at_a_time(browser_as, instances, cast, caller, path, monkeypatch):
    for number in range(4):
        cast.instance(display_name=f"more-{number}")
    monkeypatch.setattr(paging, "CSV_ROWS_PER_PAGE", 3)
    loaded = []
    read_table = list_csv.read_table
    monkeypatch.setattr(list_csv, "read_table", lambda markup: loaded.append(read_table(markup)) or loaded[-1])
    names = [row["Name"].split()[0] for row in read_csv(browser_as(caller).get(f"{path}?sort_by=name&format=csv"))]
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
        {"query": "page=2"},
        {"query": "&".join(f"a{number}=1" for number in range(51))},
        {"name": ""},
    ],
)
def test_wrong_filters_are_refused(browser_as, changes):
    form = {"name": "mine", "page": "instances.index", "query": "search=alpha"} | changes
    assert browser_as("owner").post("/saved-filters", data=form).status_code == 422


def test_saved_filters_are_limited(cast, rolled_back_app):
    for number in range(saved_filters.MAX_SAVED_FILTERS):
        saved_filters.save(cast.owner, page="instances.index", name=str(number), query="search=a")
    with pytest.raises(saved_filters.Invalid):
        saved_filters.save(cast.owner, page="volumes.index", name="more", query="search=a")
    saved_filters.save(cast.owner, page="instances.index", name="0", query="search=b")
