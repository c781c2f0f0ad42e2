"""Members of the owner's team."""

from tests.team.conftest import add_member  # noqa: F401  (a fixture)
