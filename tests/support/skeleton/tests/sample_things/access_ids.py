"""Ids of the owner's resources for the placeholders in paths, for tests/test_access.py."""


def create_ids(api_as):
    sample_thing = api_as("owner", "POST", "/api/sample-things", json={"name": "first"}).json["sample_thing"]
    return {"sample_thing_id": sample_thing["id"]}
