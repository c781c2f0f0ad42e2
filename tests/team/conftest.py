"""Roles, members and invitation mails of a team."""

import email
import email.policy
import re
import shutil

import pytest

from tests.support.team import add_member  # noqa: F401  (fixtures)


@pytest.fixture
def create_role(api_as):
    """Return a function that creates a role by the API and returns its id."""

    def make(name="Ops", allowed=("instances.view",), caller="owner"):
        body = {"name": name, "permissions": list(allowed)}
        return api_as(caller, "POST", "/api/team/roles", json=body).json["role"]["id"]

    return make


@pytest.fixture
def invite_member(api_as, create_role):
    """Return a function that invites a member by the API and returns the member of the answer."""

    def invite(address="grace@example.com", **body):
        body.setdefault("role_id", None)
        body["role_id"] = body["role_id"] or create_role(f"Role of {address}")
        answer = api_as("owner", "POST", "/api/team/subusers/invite", json={"email": address, **body})
        assert answer.status_code == 200, answer.json
        return answer.json["subuser"]

    return invite


@pytest.fixture
def read_mails_to(rolled_back_app, run_tasks):
    """Return a function that reads the mails to an address, oldest first."""
    folder = rolled_back_app.extensions["config"].data_dir / "mail"
    shutil.rmtree(folder, ignore_errors=True)

    def read(address):
        run_tasks()
        files = sorted(folder.glob("*.eml"))
        mails = [email.message_from_bytes(file.read_bytes(), policy=email.policy.default) for file in files]
        return [mail for mail in mails if mail["To"] == address]

    return read


@pytest.fixture
def get_invitation_path(read_mails_to):
    """Return a function that reads the path of the last invitation mailed to an address."""

    def read(address="grace@example.com"):
        text = read_mails_to(address)[-1].get_body(("plain",)).get_content()
        return re.search(r"Accept the invitation: http://localhost:8000(\S+)", text)[1]

    return read
