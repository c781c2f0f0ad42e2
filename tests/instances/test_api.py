"""Instances by the customers' API."""


def test_the_main_job(as_, cast, work):
    made = as_(
        "owner", "POST", "/api/cloud-service/instances", json={"location_id": cast.location.id, "plan_id": cast.plan.id}
    )
    assert made.status_code == 200
    instance = made.json["instance"]
    assert instance["state"] == "pending"
    deploy = as_("owner", "POST", f"/api/instance/{instance['id']}/deploy", json={"image_id": cast.image.id})
    assert deploy.status_code == 200
    assert deploy.json["password"]
    work()
    task = as_("owner", "GET", f"/api/instance/{instance['id']}/task/{deploy.json['task_id']}").json["task"]
    assert (task["status"], task["progress"], task["error"]) == ("completed", 100, None)
    assert as_("owner", "GET", f"/api/instance/{instance['id']}").json["state"] == "running"
