"""Projects and members of a team."""

import pytest

from tests.projects.paths import PROJECTS_PATH
from tests.support.team import add_member  # noqa: F401  (fixtures)


@pytest.fixture
def create_project(api_as):
    def make(name="Web shop", caller="owner", **fields):
        return api_as(caller, "POST", PROJECTS_PATH, json={"name": name, **fields}).json["project"]

    return make
