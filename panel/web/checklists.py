"""Checklists of the overviews: their steps, and hiding them."""

from dataclasses import dataclass
from typing import Any


@dataclass
class ChecklistItem:
    title: Any
    text: Any
    """Why the step is needed."""
    url: str | None
    is_done: bool
    detail: Any = None
    """What failed, if something did. It is shown instead of `text`."""


@dataclass
class Checklist:
    title: str
    endpoint: str
    """The page that hides the list or shows it again."""
    is_hidden: bool
    steps: list[ChecklistItem]

    @property
    def done(self):
        return sum(step.is_done for step in self.steps)

    @property
    def open_steps(self):
        return len(self.steps) - self.done
