"""How many bytes a page loads, as the browser counts them: compressed, without headers."""

MAX_FIRST_VIEW_KB, MAX_LATER_VIEW_KB = 150, 30
CHART_SCRIPT_NAME = "uPlot"
UNLIMITED_PAGES = ("/api/documentation",)
"""Ends of the paths of pages that load more: the API reference."""
LOADED_SCRIPT = """() => ["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type))
    .map(({ name, encodedBodySize }) => [name, encodedBodySize])"""


def find_weight_errors(page, path):
    """Return in what the open page exceeds the limits, as sentences. Static files count only for the first view,
    because browsers cache them for a year."""
    files = page.evaluate(LOADED_SCRIPT)
    first = sum(size for _, size in files) / 1000
    later = sum(size for name, size in files if "/static/" not in name) / 1000
    errors = []
    if not path.endswith(UNLIMITED_PAGES):
        if first > MAX_FIRST_VIEW_KB:
            errors.append(f"The first view loads {first:.0f} kB.")
        if later > MAX_LATER_VIEW_KB:
            errors.append(f"Later views load {later:.0f} kB.")
    if any(CHART_SCRIPT_NAME in name for name, _ in files) and not page.locator("[data-charts]").count():
        errors.append("Code of charts without a chart.")
    return errors


def list_loaded_files(page):
    """Return the URLs that the open page has loaded from the network, not from the browser's cache."""
    return page.evaluate(
        "() => performance.getEntriesByType('resource').filter((file) => file.transferSize).map((file) => file.name)"
    )
