"""Certificate pages without JavaScript."""

import pytest

from panel.core.db import session
from panel.models import Account, Certificate, Task
from panel.services.certificates import orders
from tests.support.certificates import issue_certificate


@pytest.fixture
def upload_in_browser(browser_as):
    """Return a function that uploads a certificate in the browser and returns its page's path."""

    def upload(issued, *above, **fields):
        answer = browser_as("owner").post("/certificates/new", data=issued.body(*above, **fields))
        assert answer.status_code == 303, answer.text
        return answer.headers["Location"]

    return upload


def test_certificate_pages_upload_to_delete(browser_as, chain):
    owner = browser_as("owner")
    assert "No certificate yet" in owner.get("/certificates").text
    assert owner.get("/certificates/new").status_code == 200
    wrong = owner.post("/certificates/new", data=chain.leaf.body(chain.root))
    assert (wrong.status_code, "did not sign the certificate" in wrong.text) == (422, True)
    assert chain.leaf.pem.splitlines()[1] in wrong.text
    assert chain.leaf.key_pem.splitlines()[1] not in wrong.text  # a key is never sent back
    path = owner.post("/certificates/new", data=chain.leaf.body(chain.issuing)).headers["Location"]
    page = owner.get(path).text
    for text in ("www.example.com", "CN=Issuing", "EC P-256", "89 days", " left</span>", "Active"):
        assert text in page
    assert "www.example.com" in owner.get("/certificates").text
    assert owner.post(f"{path}/edit", data={"name": "Renamed"}).status_code == 303
    row = session.get(Certificate, path.rpartition("/")[2])
    assert (row.name, row.domains[0]) == ("Renamed", "shop.example.com")
    half = owner.post(f"{path}/edit", data={"name": "Renamed", "certificate": chain.leaf.pem})
    assert (half.status_code, "together" in half.text) == (422, True)
    other = issue_certificate(("other.example.com",), days=10)
    assert owner.post(f"{path}/edit", data={"name": "Renamed", **other.body()}).status_code == 303
    assert row.domains == ["other.example.com"]
    assert "expires in 9 days" in owner.get(path).text
    assert owner.post(f"{path}/delete").status_code == 303
    assert owner.get(path).status_code == 404


def test_certificate_list_page_searches_and_filters(browser_as, upload_in_browser):
    upload_in_browser(issue_certificate(("one.example",)))
    upload_in_browser(issue_certificate(("two.example",), days=5))
    owner = browser_as("owner")
    for query, one, two in (
        ("search=one", True, False),
        ("status=expiring", False, True),
        ("status=nosuch", True, True),
        ("search=three", False, False),
    ):
        text = owner.get(f"/certificates?{query}").text
        assert ("one.example" in text, "two.example" in text) == (one, two), query
    assert "No certificate matches" in owner.get("/certificates?search=three").text


def test_certificate_page_shows_and_enforces_limit(browser_as, upload_in_browser, cast, chain):
    """LIM-12, LIM-15, LIM-20"""
    path = upload_in_browser(chain.leaf)
    session.get(Account, cast.owner.id).max_certificates = 1
    session.commit()
    owner = browser_as("owner")
    page = owner.get("/certificates").text
    assert "1 of 1 used" in page
    assert "limited to 1 certificate." in page
    refused = owner.post("/certificates/new", data=chain.leaf.body())
    assert (refused.status_code, session.query(Certificate).count()) == (422, 1)
    assert owner.post(f"{path}/delete").status_code == 303
    assert "0 of 1 used" in owner.get("/certificates").text
    assert owner.post("/certificates/new", data=chain.leaf.body()).status_code == 303


def test_certificate_pages_check_permissions(browser_as, upload_in_browser, chain):
    path = upload_in_browser(chain.leaf)
    viewer = browser_as("viewer")
    assert "needs certificates.manage" in viewer.get(path).text
    assert "needs certificates.manage" in viewer.get("/certificates").text
    for method, page in (("GET", "/certificates/new"), ("GET", f"{path}/edit"), ("POST", f"{path}/delete")):
        assert viewer.open(page, method=method).status_code == 403
    assert browser_as("outsider").get(path).status_code == 404
    assert browser_as("outsider").post(f"{path}/delete").status_code == 404


def test_expired_certificate_page_shows_warning(browser_as, upload_in_browser):
    path = upload_in_browser(issue_certificate(days=-3, before=100))
    page = browser_as("owner").get(path).text
    assert "This certificate has expired" in page
    assert "Expired" in page


def test_order_page_shows_progress_and_failure(browser_as, run_tasks):
    """The authority is unreachable: the order fails, and the page shows the error and how to retry."""
    owner = browser_as("owner")
    page = owner.get("/certificates/new").text
    assert "/.well-known/acme-challenge/" in page
    assert "private_key" not in page
    assert "private_key" in owner.get("/certificates/new?type=manual").text
    empty = owner.post("/certificates/new", data={"type": "letsencrypt", "domains": "", "name": ""})
    assert (empty.status_code, "This field is required." in empty.text, "Length" in empty.text) == (422, True, False)
    order = {"type": "letsencrypt", "domains": "shop.example.com\r\n*.example.com\r\n", "name": ""}
    wrong = owner.post("/certificates/new", data=order)
    assert (wrong.status_code, "Wildcards are not supported" in wrong.text) == (422, True)
    assert "shop.example.com\n*.example.com" in wrong.text.replace("\r", "")
    answer = owner.post("/certificates/new", data={**order, "domains": "shop.example.com\r\nwww.example.com\r\n"})
    path = answer.headers["Location"]
    page = owner.get(path).text
    for text in ("Pending", "Queued", "every 2s", "shop.example.com", "Requirements for each domain"):
        assert text in page
    row = session.get(Certificate, path.rpartition("/")[2])
    assert row.domains == ["shop.example.com", "www.example.com"]
    orders.record_failure(row, "shop.example.com: Connection refused <b>")
    session.get(Task, row.task_id).status = "failed"
    session.commit()
    page = owner.get(path).text
    for text in ("The order failed", "Connection refused &lt;b&gt;", "Try again", "Failed"):
        assert text in page
    assert "every 2s" not in page
    assert owner.post(f"{path}/renew").status_code == 303
    assert "Pending" in owner.get(path).text
    assert owner.post(f"{path}/renew").status_code == 409
    assert owner.post(f"{path}/delete").status_code == 303


def test_uploaded_certificate_page_has_no_renewal(browser_as, upload_in_browser, chain):
    path = upload_in_browser(chain.leaf)
    assert "Renew now" not in browser_as("owner").get(path).text
    assert browser_as("owner").post(f"{path}/renew").status_code == 409
    assert browser_as("viewer").post(f"{path}/renew").status_code == 403
