import pytest

from tests.laboratory import laboratory


@pytest.fixture(scope="session")
def lab(tmp_path_factory, hypervisor, guest_cache):
    with laboratory(tmp_path_factory.mktemp("lab"), hypervisor, guest_cache) as made:
        yield made
