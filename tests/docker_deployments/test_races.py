"""Parallel requests."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from sqlalchemy import func, select

from panel.app import create_app
from panel.core import clock
from panel.core.db import session
from panel.models import DockerDeployment, DockerEngine, Instance
from panel.workflows import reachability
from tests.support.isolated_app import isolated_installation


def test_parallel_deployments_accept_only_one(tmp_path, monkeypatch):
    """Reference: docker: one in flight."""
    monkeypatch.setattr(reachability, "wait_for_poll", lambda *_: None)  # no workers run
    count = 6
    with isolated_installation(tmp_path, create=create_app) as app, app.app_context():
        instance = app.cast.instance()
        machine = session.get(Instance, instance.id)
        machine.deployed, machine.power, machine.power_reported_at = True, "on", clock.now()
        session.add(DockerEngine(instance_id=instance.id, installed_at=clock.now()))
        session.commit()
        path, start = f"/api/instance/{instance.id}/docker", Barrier(count)

        def deploy(number):
            mappings = [{"container_port": 80, "host_port": 8000 + number}]
            start.wait()
            body = {"app_slug": "nginx", "port_mappings": mappings}
            return app.test_client().post(path, json=body, headers=app.cast.headers("owner"))

        with ThreadPoolExecutor(count) as customers:
            answers = list(customers.map(deploy, range(count)))
        assert sorted(answer.status_code for answer in answers) == [200] + [422] * (count - 1)
        refusals = {answer.json["reason"] for answer in answers if answer.status_code == 422}
        assert refusals == {"docker_task_running"}
        assert session.scalar(select(func.count()).select_from(DockerDeployment)) == 1
