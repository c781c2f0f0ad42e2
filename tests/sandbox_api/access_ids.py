"""An id for the tests of access to every operation (tests/test_access.py)."""


def create_ids(api_as):
    """Return ids of resources of the owner, by the names of the placeholders in paths."""
    body = {"name": "agents"}
    return {"api_key_id": api_as("owner", "POST", "/api/microvm/api-keys", json=body).json["api_key"]["id"]}
