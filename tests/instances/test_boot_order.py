"""The boot order on the media tab."""

import re

from tests.support.html_pages import PARTIAL_HEADERS


def test_boot_order_is_changed_on_media_tab(browser_as, cast):
    instance, browser = cast.instance(), browser_as("owner")
    media = f"/instances/{instance.id}/media"
    assert '<option value="disk" selected>Disk</option>' in browser.get(media).text
    assert 'name="boot"' not in browser.get(f"/instances/{instance.id}/settings").text
    (address,) = re.findall(r'action="([^"]+)">\s*<label class="form-label" for="boot"', browser.get(media).text)
    answer = browser.post(address, data={"boot": "cdrom,disk"})
    assert (answer.status_code, answer.headers["Location"]) == (303, media)
    assert instance.boot == "cdrom,disk"
    assert "Settings saved." in (page := browser.get(media).text)
    assert '<option value="cdrom,disk" selected>CD, then disk</option>' in page


def test_boot_order_set_by_api_stays_selected(browser_as, cast):
    instance = cast.instance()
    instance.boot = "network"
    part = browser_as("owner").get(f"/instances/{instance.id}/media/now", headers=PARTIAL_HEADERS).text
    assert '<option value="network" selected>network</option>' in part
