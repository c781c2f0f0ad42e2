"""The marks of operating systems and the flags of countries, from static/vendor/."""

import json
from functools import cache

from panel.web.assets import STATIC_FOLDER, asset_url

FLAGS_FOLDER = "vendor/flags"


@cache
def load_marks():
    """Return the words of systems' names with the ids of their marks (static/marks.json)."""
    return json.loads((STATIC_FOLDER / "marks.json").read_text())


@cache
def find_mark(distro):
    """Return the id of a system's mark, such as `debian`; None for systems without one, which have a neutral icon."""
    name = distro.lower()
    return next((mark for word, mark in load_marks().items() if word in name), None)


def mark_url(mark):
    return f"{asset_url('vendor/marks.svg')}#{mark}"


@cache
def find_flag_url(country):
    """Return the URL of a country's flag; None for an unknown code, or none."""
    name = f"{FLAGS_FOLDER}/{country.lower()}.svg"
    return asset_url(name) if country.isalpha() and (STATIC_FOLDER / name).is_file() else None
