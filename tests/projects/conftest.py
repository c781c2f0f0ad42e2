"""People of the owner's team."""

from tests.team.conftest import joined  # noqa: F401  (a fixture)
