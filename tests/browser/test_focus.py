"""Accessibility: focus after actions, labels and contrast of the layout."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.readability_site import open_page, site  # noqa: F401  (fixtures)

pytestmark = pytest.mark.browser


def find_focused_element(page):
    return page.evaluate("document.activeElement.id || document.activeElement.tagName")


def test_focus_stays_after_actions(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-query")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#search-open")).to_be_focused()

    page.locator("#search").fill("nothing has this name")
    expect(page.locator(".page-title .count")).to_have_text("0")

    page.goto(f"{site.url}{site.paths['instance']}/settings")
    page.locator("#typed").fill("nonsense")
    page.locator("#typed").press("Enter")
    expect(page.locator("#typed-error")).to_contain_text("The name does not match.")
    expect(page.locator("#typed")).to_be_focused()
    assert page.locator("#typed").get_attribute("aria-invalid") == "true"
    page.locator("#typed").press("x")
    expect(page.locator("#typed-error")).to_have_count(0)

    page.goto(f"{site.url}{site.paths['instance']}")
    page.get_by_role("button", name="Restart").first.click()
    page.locator("#confirm-yes").click()
    expect(page.locator("#toasts")).to_contain_text("Restart requested.")
    page.wait_for_timeout(1000)
    assert find_focused_element(page) != "BODY"

    page.goto(f"{site.url}{site.paths['instance']}/snapshots")
    page.locator("#take [name=snapname]").fill("focus-test")
    page.locator("#take button").click()
    expect(page.locator("#toasts")).to_contain_text("Snapshot requested.")
    expect(page.locator("#take button:focus")).to_have_count(1)  # a field would stop the updates of the page


def test_focus_stays_when_an_update_disables_the_button(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}{site.paths['instance']}")
    button = page.get_by_role("button", name="Power off").first
    button.focus()
    with page.expect_response(lambda answer: answer.request.headers.get("hx-request-type") == "partial"):
        button.evaluate("button => (button.disabled = true)")
    expect(page.locator(":focus:not(:disabled)")).to_have_count(1)


def test_reason_of_disabled_button_is_shown_on_focus_and_hidden_by_escape(site, open_page):
    page = open_page("phone")
    page.goto(f"{site.url}{site.paths['instance']}")
    button = page.locator("#power-start")
    expect(button).to_be_disabled()
    reason = page.locator(".with-reason", has=button).locator(".reason")
    expect(reason).to_be_hidden()
    button.focus()
    expect(reason).to_be_visible()
    expect(reason).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(reason).to_be_hidden()
    expect(page.locator("#power-start:focus")).to_have_count(1)


def test_focus_stays_in_a_group_whose_buttons_are_all_disabled(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}{site.paths['instance']}")
    button = page.get_by_role("button", name="Power off").first
    button.focus()
    button.evaluate(
        """button => {
            for (const other of button.closest(".btn-list").querySelectorAll("a")) other.remove();
            for (const other of button.closest(".btn-list").querySelectorAll("button")) other.disabled = true;
            document.dispatchEvent(new CustomEvent("htmx:finally:request", { detail: { ctx: {} } }));
        }"""
    )
    expect(page.locator(".btn-list:focus, .btn-list button:focus:enabled")).to_have_count(1)  # an update enables them


def test_input_and_errors_of_forms_stay_when_the_page_around_them_is_updated(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}{site.paths['microvm']}")
    page.locator("#taking [name=name]").fill("half-typed")
    page.locator("#typed").fill("nonsense")
    page.locator("#typed").press("Enter")
    expect(page.locator("#typed-error")).to_contain_text("The name does not match.")
    page.locator("#main").focus()
    page.locator("#microvm").evaluate("part => part.querySelector('h1').append(' before')")
    expect(page.locator("#microvm h1")).not_to_contain_text("before")
    expect(page.locator("#taking [name=name]")).to_have_value("half-typed")
    expect(page.locator("#typed-error")).to_be_visible()


def test_switch_has_the_focus_again_on_the_reloaded_page(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}{site.paths['instance']}/settings")
    button = page.locator("#switch-mail button")
    action = button.inner_text()
    button.click()
    expect(page.locator("#switch-mail button")).not_to_have_text(action)
    expect(page.locator("#switch-mail button")).to_be_focused()


def test_result_of_a_bulk_action_has_the_focus(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.locator("[name=ids]").first.check()
    page.locator("#bulk [name=tag]").fill("focus")
    page.locator("#bulk [name=tag]").press("Enter")
    expect(page.locator("#bulk-results")).to_contain_text("Tag added.")
    expect(page.locator("#bulk-panel-title")).to_be_focused()


def test_page_after_a_cancelled_dialog_starts_at_its_top(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}{site.paths['instance']}")
    page.get_by_role("button", name="Restart").first.click()
    page.locator("#confirm").get_by_role("button", name="Cancel").click()
    page.goto(f"{site.url}/ssh-keys")
    assert find_focused_element(page) == "BODY"


def test_refused_bulk_destroy_focuses_its_field(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.locator("[name=ids]").first.check()
    page.locator("#bulk [value=destroy]").click()
    page.locator("#typed").fill("99")
    page.locator("#typed").press("Enter")
    expect(page.locator("#typed-error")).to_contain_text("Nothing was destroyed.")
    expect(page.locator("#typed")).to_be_focused()
    expect(page.locator("#typed")).to_have_value("99")


def test_updates_continue_while_an_empty_field_has_the_focus(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}{site.paths['instance']}/snapshots")
    page.locator("#take [name=snapname]").focus()
    page.locator("#instance h1").evaluate("title => (title.textContent = 'outdated')")
    expect(page.locator("#instance h1")).not_to_have_text("outdated", timeout=15_000)
    expect(page.locator("#take [name=snapname]")).to_be_focused()
    page.locator("#take [name=snapname]").fill("before-upgrade")
    page.locator("#instance h1").evaluate("title => (title.textContent = 'outdated')")
    page.wait_for_timeout(11_000)
    expect(page.locator("#take [name=snapname]")).to_have_value("before-upgrade")


def test_escape_closes_the_search_with_text(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.keyboard.press("Control+k")
    page.locator("#palette-query").fill("volumes")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


def test_enter_in_the_tag_field_adds_the_tag(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.locator("[name=ids]").first.check()
    page.locator("#bulk [name=tag]").fill("nightly")
    page.locator("#bulk [name=tag]").press("Enter")
    expect(page.locator("main")).to_contain_text("Tag added.")


def test_bulk_actions_that_interrupt_guests_are_confirmed(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.locator("[name=ids]").first.check()
    page.locator("#bulk").get_by_role("button", name="Restart").click()
    question = "Restart the selected instances? Their guests are asked to reboot."
    expect(page.locator("#confirm-text")).to_have_text(question)
    page.locator("#confirm").get_by_role("button", name="Cancel").click()
    expect(page.locator("#confirm")).to_be_hidden()
    assert page.url == f"{site.url}/instances"
    page.locator("#bulk").get_by_role("button", name="Restart").click()
    page.locator("#confirm-yes").click()
    expect(page.locator("#bulk-results")).to_contain_text("Restart requested for 1 instance.")
    assert page.url == f"{site.url}/instances"


CONTRAST_RATIO_SCRIPT = """element => {
    const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const luminance = (color) => {
        context.fillStyle = color;
        context.fillRect(0, 0, 1, 1);
        const [red, green, blue] = [...context.getImageData(0, 0, 1, 1).data]
            .map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const isClear = (color) => color === "transparent" || color.endsWith(", 0)");
    let ground = element;
    while (ground && isClear(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    const light = [luminance(getComputedStyle(element).color)];
    light.push(luminance(ground ? getComputedStyle(ground).backgroundColor : "white"));
    return (Math.max(...light) + 0.05) / (Math.min(...light) + 0.05);
}"""
"""Returns the contrast ratio of WCAG 2.1 between an element's text and its background."""


def test_layout_controls_have_visible_names_and_contrast(site, open_page):
    """WCAG 2.5.3: visible text is the accessible name of a control. Group titles have a contrast of 4.5 to 1."""
    for caller, theme in (("owner", "light"), ("admin", "dark")):
        page = open_page("screen", theme, caller)
        page.goto(site.url + ("/admin" if caller == "admin" else "/"))
        for place in (".navbar-brand", "#search-open", ".account-menu"):
            assert page.locator(place).get_attribute("aria-label") is None
        assert page.locator(".nav-section-title").first.evaluate(CONTRAST_RATIO_SCRIPT) >= 4.5


def test_navigation_fits_the_screen_and_scrolls_otherwise(site, open_page):
    """The groups of the current page and of daily work are open. With all groups open it scrolls by itself."""
    for caller, path in (("owner", "/"), ("admin", "/admin/plans"), ("admin", "/admin/customers")):
        page = open_page("screen", caller=caller)
        page.goto(f"{site.url}{path}")
        expect(page.locator("[data-toggle-sidebar]")).to_be_in_viewport(ratio=1)
    page.locator("aside details").evaluate_all("groups => groups.forEach((group) => (group.open = true))")
    last = page.locator(".navbar-vertical a.nav-link").last
    expect(last).not_to_be_in_viewport()
    page.mouse.move(100, 500)
    page.mouse.wheel(0, 2000)
    expect(last).to_be_in_viewport()


@pytest.mark.parametrize(("caller", "path"), [("owner", "/webhooks/new"), ("owner", "media"), ("admin", "settings")])
def test_links_within_sentences_are_distinguishable_from_text(site, open_page, caller, path):
    """WCAG 1.4.1: links are underlined, not only colored."""
    page = open_page("screen", caller=caller)
    instance = ("/admin" if caller == "admin" else "") + site.paths["instance"]
    page.goto(site.url + (path if path.startswith("/") else f"{instance}/{path}"))
    links = page.locator("main").locator("p > a:not(.btn), .form-hint > a").all()
    assert links
    for link in links:
        assert "underline" in link.evaluate("link => getComputedStyle(link).textDecorationLine")


MAX_TAB_STOPS = 150


def tab_to(page, selector):
    """Press Tab until the element has the focus."""
    for _ in range(MAX_TAB_STOPS):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reachable by Tab.")


def test_instance_is_created_and_powered_off_by_keyboard(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    tab_to(page, "main a[href$='/instances/new']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/instances/new")
    tab_to(page, "[name=display_name]")
    page.keyboard.type("by-keyboard")
    tab_to(page, "#create")
    page.keyboard.press("Enter")
    expect(page.locator("h1, h1 input").first).to_be_visible()
    page.wait_for_url(re.compile(r"/instances/[0-9a-f-]{36}$"))
    assert find_focused_element(page) != "BODY"
    with site.app.app_context():
        site.run_tasks()
    page.reload()
    tab_to(page, "#power-poweroff")
    page.keyboard.press("Enter")
    expect(page.locator("#confirm")).to_be_visible()
    tab_to(page, "#confirm-yes")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Power off requested.")
    page.wait_for_timeout(1000)
    assert find_focused_element(page) != "BODY"


@pytest.mark.parametrize("key", ["Escape", "Enter"])
def test_focus_returns_when_the_shortcuts_are_closed(site, open_page, key):
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    page.locator("#search-open").focus()
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    if key == "Enter":
        tab_to(page, "#shortcuts [data-close-dialog]")
    page.keyboard.press(key)
    expect(page.locator("#shortcuts")).to_be_hidden()
    expect(page.locator("#search-open")).to_be_focused()


def test_results_are_announced(site, open_page):
    """Messages and the results of searches are in live regions, which exist beforehand."""
    page = open_page("screen")
    page.goto(f"{site.url}/instances")
    for selector in ("#toasts", "#palette-status"):
        assert page.locator(selector).get_attribute("role") == "status"
    page.keyboard.press("Control+k")
    page.locator("#palette-query").fill("volumes")
    expect(page.locator("#palette-status")).not_to_be_empty()


def test_nothing_is_animated_with_reduced_motion(site, open_page):
    page = open_page("screen")
    page.goto(f"{site.url}/tasks")
    count_animations = "() => document.getAnimations().length"
    page.locator("main .state").first.evaluate(
        "dot => (dot.firstChild.className = 'status-dot status-dot-animated status-blue')"
    )
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(count_animations) > 0
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(count_animations) == 0
