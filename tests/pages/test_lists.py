"""What every list offers: columns to sort by, a CSV file of what is shown, and saved filters."""

import csv
import io

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import SavedFilter
from panel.services import saved_filters


@pytest.fixture
def instances(cast):
    return [cast.instance(display_name=name) for name in ("bravo", "=alpha", "charlie")]


def test_instances_are_sorted_by_name_in_both_directions(browser_as, instances):
    for order, names in (("name", ["=alpha", "bravo", "charlie"]), ("-name", ["charlie", "bravo", "=alpha"])):
        text = browser_as("owner").get(f"/instances?sort_by={order}").text
        assert sorted(names, key=text.index) == names
        assert f'aria-sort="{"descending" if order[0] == "-" else "ascending"}"' in text
    assert "aria-sort" in browser_as("owner").get("/instances?sort_by=notes").text  # unknown: the default order


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
    "changes", [{"page": "nothing.index"}, {"page": "instances.show"}, {"query": "page=2"}, {"name": ""}]
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
