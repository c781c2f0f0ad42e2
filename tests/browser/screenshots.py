"""Pictures of every page, on a phone and a screen, in both themes, with what axe reports: `make screenshots`.

Writes to tests/shots/pages, which git ignores. Collected only when it is named.
"""

import json
import re
import shutil

import pytest

from panel.core.config import ROOT
from tests.browser.axe import find_violations
from tests.browser.page_paths import AREAS, visit_pages
from tests.browser.readability_site import VIEWPORTS, open_page, site  # noqa: F401  (fixtures)

SHOTS_FOLDER = ROOT / "tests" / "shots" / "pages"
THEMES = ("light", "dark")
SETTLE_SCRIPT = """() => {
    for (const animation of document.getAnimations()) if (animation instanceof CSSTransition) animation.finish();
}"""


pytestmark = pytest.mark.browser


@pytest.mark.parametrize("caller", AREAS)
def test_every_page_is_pictured_and_accessible(site, open_page, caller):
    folder = SHOTS_FOLDER / caller
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page, errors = open_page("phone", caller=caller), {}
    for path, _ in visit_pages(page, site, caller):
        for size, viewport in VIEWPORTS.items():
            page.set_viewport_size(viewport)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                page.evaluate(SETTLE_SCRIPT)
                page.screenshot(path=folder / f"{build_name(path)}-{size}-{theme}.png", full_page=True)
                if violations := find_violations(page):
                    errors[f"{path} {size} {theme}"] = violations
        page.set_viewport_size(VIEWPORTS["phone"])
    (folder / "axe.json").write_text(json.dumps(errors, indent=2))
    assert errors == {}


def build_name(path):
    """Return a file name for a path, with `id` in place of ids."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"[0-9a-f-]{36}", "id", path)).strip("-") or "overview"
