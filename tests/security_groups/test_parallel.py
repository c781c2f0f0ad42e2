"""Rules that are added in parallel do not exceed the limit."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from panel.app import create_app
from panel.core.db import session
from panel.models import SecurityRule
from panel.services import security_groups
from panel.services.security_groups import MAX_RULES_PER_GROUP
from tests.support.isolated_app import isolated_installation

PARALLEL_REQUESTS = 4


def build_port_rule(port):
    ports = {"port_range_min": port, "port_range_max": port}
    return {"direction": "ingress", "protocol": "tcp", "ip_version": "ipv4", "cidr": "0.0.0.0/0", **ports}


def test_parallel_rules_do_not_exceed_group_limit(tmp_path):
    with isolated_installation(tmp_path, create=create_app) as app, app.app_context():
        group = security_groups.create(session.merge(app.cast.owner), name="web")
        session.add_all(
            SecurityRule(group_id=group.id, **build_port_rule(1000 + n)) for n in range(MAX_RULES_PER_GROUP - 1)
        )
        session.commit()
        path, start = f"/api/security-group/{group.id}/rules", Barrier(PARALLEL_REQUESTS)

        def add(number):
            start.wait()
            return app.test_client().post(path, json=build_port_rule(number), headers=app.cast.headers("owner"))

        with ThreadPoolExecutor(PARALLEL_REQUESTS) as customers:
            answers = list(customers.map(add, range(1, PARALLEL_REQUESTS + 1)))
        assert sorted(answer.status_code for answer in answers) == [200] + [422] * (PARALLEL_REQUESTS - 1)
        assert session.query(SecurityRule).count() == MAX_RULES_PER_GROUP
