"""The pages of the readability site: those to open at all sizes, and all others that links reach."""

from urllib.parse import urlsplit

from flask import url_for

from panel.app import OPERATOR_PAGES
from tests.support.link_crawler import normalize_path

CUSTOMER_PATHS = [
    "/",
    "/instances",
    "/instances/new",
    "/instances?search=nothing",
    "/resource-packs",
    "/microvms",
    "/microvms/new",
    "/tasks",
    "/activity",
    "/activity/log",
    "/search?q=a",
    "/volumes",
    "/volumes/new",
    "/volumes/backups",
    "/images",
    "/isos",
    "/isos/new",
    "/backups",
    "/backups?search=nothing",
    "/backup-policies",
    "/backup-policies/new",
    "/projects",
    "/projects/new",
    "/security-groups",
    "/security-groups/new",
    "/ip-sets",
    "/ip-sets/new",
    "/ssh-keys",
    "/ssh-keys/new",
    "/ssh-keys/generate",
    "/user-scripts",
    "/user-scripts/new",
    "/alert-rules",
    "/alert-rules/new",
    "/notification-channels",
    "/notification-channels/new",
    "/webhooks",
    "/webhooks/new",
    "/webhooks/verify",
    "/api-tokens",
    "/api-tokens/new",
    "/api-tokens/test",
    "/team",
    "/team/invite",
    "/team/roles/new",
    "/billing",
    "/billing/entries",
    "/profile",
    "/profile/security",
]
INSTANCE_TABS = (
    "",
    "/network",
    "/storage",
    "/media",
    "/snapshots",
    "/backups",
    "/apps",
    "/apps/catalog",
    "/apps/compose",
    "/apps/new/wordpress",
    "/tasks",
    "/activity",
    "/settings",
    "/change-plan",
    "/reinstall",
)
ADMIN_FORMS = [
    "instances/new",
    "customers/new",
    "resource-packs/new",
    "hypervisors/new",
    "security-groups/new",
    "plans/new",
    "backup-destinations/new",
    "backup-policies/new",
    "backups/missing",
]
"""Forms of operators, below /admin."""


MAX_VISITED_PAGES = 200
REPRESENTATIVE_APP = "wordpress"
"""The app of the catalog whose form is visited. The others have the same page."""


def list_customer_paths(site):
    instance, microvm = site.paths["instance"], site.paths["microvm"]
    microvm_pages = (f"{microvm}/{page}" for page in ("edit", "logs", "metrics"))
    return [*CUSTOMER_PATHS, *site.paths.values(), *(instance + tab for tab in INSTANCE_TABS), *microvm_pages]


def list_admin_paths(site):
    with site.app.test_request_context():
        lists = [url_for(entry.endpoint) for entry in OPERATOR_PAGES.entries]
    tabs = [f"/admin{site.paths['instance']}{tab}" for tab in ("", "/network", "/backups", "/settings")]
    detail_pages = [f"/admin{site.paths[name]}" for name in ("group", "set", "pack")]
    return [*lists, *(f"/admin/{form}" for form in ADMIN_FORMS), *tabs, *detail_pages, "/admin/ip-sets?search=nothing"]


AREAS = {"owner": ("/", list_customer_paths), "admin": ("/admin", list_admin_paths)}
"""By caller: the start of the area, and the function that lists its pages."""


def visit_pages(page, site, caller):
    """Open each page of the caller's area, one for each kind, and yield (path, whether it is listed). CSV and YAML
    files are only requested."""
    area, list_paths = AREAS[caller]
    listed = list_paths(site)
    visited, waiting = set(), [area, *listed]
    while waiting:
        path = waiting.pop(0)
        kind = normalize_path(path), urlsplit(path).query  # an empty search is a page of its own
        if kind in visited or not f"{path}/".startswith(f"{area.rstrip('/')}/"):
            continue
        visited.add(kind)
        if path.endswith((".csv", ".yaml")):
            assert page.request.get(site.url + path).ok, path
            continue
        assert page.goto(site.url + path).ok, path
        yield path, path in listed
        waiting += find_links(page, site)
        assert len(visited) < MAX_VISITED_PAGES, path


def find_links(page, site):
    urls = page.eval_on_selector_all("a[href]:not([download])", "all => all.map(a => a.href)")
    paths = [urlsplit(url).path for url in urls if url.startswith(site.url) and "/static/" not in url]
    return [path for path in paths if "/apps/new/" not in path or path.endswith(f"/{REPRESENTATIVE_APP}")]
