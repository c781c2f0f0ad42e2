"""What tests/test_access.py needs: an id of the owner's for each placeholder in paths."""


def create_ids(api_as):
    sample_thing = api_as("owner", "POST", "/api/sample-things", json={"name": "first"}).json["sample_thing"]
    return {"sample_thing_id": sample_thing["id"]}
