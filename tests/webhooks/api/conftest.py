"""Fixtures for webhook subscriptions on the customers' API."""

import pytest

from tests.webhooks.api.subscriptions import SUBSCRIPTION_BODY, SUBSCRIPTIONS_PATH, WEBHOOK_SECRET


@pytest.fixture
def create_subscription(api_as):
    """Return a function that creates a subscription by the API and returns its JSON."""

    def create(caller="owner", **changes):
        answer = api_as(caller, "POST", SUBSCRIPTIONS_PATH, json={**SUBSCRIPTION_BODY, **changes})
        assert answer.status_code == 201, answer.json
        return answer.json["webhook_subscription"]

    return create


@pytest.fixture
def get_field_error(api_as):
    """Return a function that sends an invalid body and returns the error of a field."""

    def send_and_get_error(field, path=SUBSCRIPTIONS_PATH, method="POST", **changes):
        body = {**(SUBSCRIPTION_BODY if method == "POST" else {}), **changes}
        answer = api_as("owner", method, path, json={name: value for name, value in body.items() if value is not ...})
        assert answer.status_code == 422, answer.json
        assert WEBHOOK_SECRET not in answer.text
        names = [name for name in answer.json["errors"] if name.partition(".")[0] == field]
        assert names, answer.json
        return answer.json["errors"][names[0]][0]

    return send_and_get_error
