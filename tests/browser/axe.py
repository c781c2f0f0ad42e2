"""Accessibility by axe, whose rules come from npm."""

from functools import cache

from panel.core.config import ROOT

AXE_PATH = ROOT / "static" / "node_modules" / "axe-core" / "axe.min.js"
RUN_SCRIPT = """async (selector) => {
    const options = { resultTypes: ["violations"], elementRef: false };
    const { violations } = await axe.run(document.querySelector(selector), options);
    const reported = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
    return reported.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) =>
        `${id}: ${html.slice(0, 160)} ${failureSummary.split("\\n").slice(1).join(" ").trim().slice(0, 300)}`));
}"""


@cache
def read_axe():
    assert AXE_PATH.is_file(), f"{AXE_PATH} is missing. Run `make browser-files`."
    return AXE_PATH.read_text()


def find_violations(page, selector="html"):
    """Return what axe reports as serious or critical in that part of the open page, as sentences."""
    page.evaluate(read_axe())  # the panel's policy refuses a script element
    return page.evaluate(RUN_SCRIPT, selector)
