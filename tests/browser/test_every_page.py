"""All pages that links reach answer 200, fit a phone and cause no console errors."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.lab_pages import sign_in
from tests.support.installation import CUSTOMER_EMAIL, OPERATOR_EMAIL

pytestmark = [pytest.mark.browser, pytest.mark.guest]

MAX_VISITED_PAGES = 160
PHONE_VIEWPORT = {"width": 360, "height": 740}


@pytest.mark.parametrize(("email", "area"), [(CUSTOMER_EMAIL, ""), (OPERATOR_EMAIL, "/admin")])
def test_linked_pages_open_and_fit_a_phone(page, lab, email, area):
    instance = lab.create(display_name="A machine with a name that is long enough to need more room than there is")
    sign_in(page, lab, email)
    page.set_viewport_size(PHONE_VIEWPORT)
    seen, waiting = set(), [f"{area}/instances/{instance['id']}", "/"]
    while waiting and len(seen) < MAX_VISITED_PAGES:
        path = waiting.pop(0)
        if normalize_path(path) in seen:
            continue
        seen.add(normalize_path(path))
        if path.endswith((".csv", ".yaml")):
            assert page.request.get(lab.installation.url + path).ok, path
            continue
        answer = page.goto(lab.installation.url + path)
        assert answer.status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_VIEWPORT["width"], (
            f"{path} is too wide for a phone"
        )
        assert page.title(), path
        expect(page.locator("h1"), path).to_have_count(1)
        waiting += find_links(page, lab)
    assert len(seen) > 12
    lab.destroy(instance)


def find_links(page, lab):
    urls = page.eval_on_selector_all("a[href]:not([download])", "all => all.map(a => a.href)")
    return [urlsplit(url).path for url in urls if url.startswith(lab.installation.url) and "/static/" not in url]


def normalize_path(path):
    """Return the path with `id` in place of ids, so that one page of a kind is visited."""
    return "/".join("id" if len(part) == 36 else part for part in path.split("/"))
