"""Ids of the owner's resources for the placeholders in paths, for tests/test_access.py."""


def create_ids(api_as):
    notification_channel = api_as("owner", "POST", "/api/notification-channels", json={"name": "first"}).json[
        "notification_channel"
    ]
    return {"notification_channel_id": notification_channel["id"]}
