"""What page modules declare beside their blueprint `bp`, and the registry of it for each area.

A module may have `NAVIGATION` (a NavigationEntry), `PALETTE_ACTIONS` (a tuple of PaletteAction) and `SEARCH_RESULTS` (a
tuple of SearchResults).
"""

from collections.abc import Callable
from dataclasses import dataclass

from flask import current_app

from panel.auth import permissions
from panel.services import usage


@dataclass(frozen=True)
class NavigationGroup:
    name: str
    label: str = ""
    is_open: bool = True
    """Whether it shows its entries also while another group has the current page."""
    is_in_account_menu: bool = False
    """Whether its entries are in the account menu instead of the navigation."""


@dataclass(frozen=True)
class NavigationEntry:
    group: str
    label: str
    endpoint: str
    icon: str
    permission: str
    position: int
    """The place within the group, from low to high. Positions have gaps for later entries."""
    is_billed: bool = False
    """Whether the page needs billing to be on, or an unbilled account (BIL-10)."""
    shortcut: str = ""
    """The letter that opens the page after `g`."""
    further_blueprints: tuple[str, ...] = ()
    """Blueprints of pages that are linked from this one, and have no entry of their own."""
    select_attention: Callable | None = None
    """Returns the query of the rows that need attention, for the viewer's access. The navigation shows their number."""


@dataclass(frozen=True)
class PaletteAction:
    """An action that the command palette offers."""

    label: str
    endpoint: str
    icon: str
    permission: str
    position: int


@dataclass(frozen=True)
class SearchResults:
    """How pages show the results of one kind of panel.services.search_kinds."""

    kind: str
    label: str
    icon: str
    url: Callable
    """Returns the URL of a row, or of a row's id in the operator area."""
    state_of: Callable | None = None
    """Returns the word and the label of a row's state (`ui.state`), in customers' search."""
    label_of: Callable = str
    """Returns the label of a row from its name."""
    find_actions: Callable | None = None
    """Returns {id: actions} of the rows with these ids: what the viewer may do with them now."""


class AreaPageRegistry:
    """The page modules of an area and what they declare."""

    def __init__(self, modules, groups):
        self.modules = [module for module in modules if hasattr(module, "bp")]
        entries = [module.NAVIGATION for module in modules if hasattr(module, "NAVIGATION")]
        self.navigation = [
            (group, sorted((entry for entry in entries if entry.group == group.name), key=lambda entry: entry.position))
            for group in groups
        ]
        declared = [action for module in modules for action in getattr(module, "PALETTE_ACTIONS", ())]
        self.palette_actions = sorted(declared, key=lambda action: action.position)
        self.search_results = {
            results.kind: results for module in modules for results in getattr(module, "SEARCH_RESULTS", ())
        }
        for entry in (*entries, *declared):
            permissions.validate_permission(entry.permission)

    @property
    def entries(self):
        """All entries of the navigation, in their order."""
        return [entry for _, entries in self.navigation for entry in entries]


def get_customer_pages():
    return current_app.extensions["customer_pages"]


def get_operator_pages():
    return current_app.extensions["operator_pages"]


def list_closed_families(access):
    """Return the families of permissions that only billed pages need, while billing is off for this account."""
    if usage.is_billing_enabled(access):
        return set()
    entries = get_customer_pages().entries
    unbilled = {entry.permission.partition(".")[0] for entry in entries if not entry.is_billed}
    return {entry.permission.partition(".")[0] for entry in entries if entry.is_billed} - unbilled
