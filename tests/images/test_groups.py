"""Images by distribution."""

from panel.core.db import session
from panel.models import Image


def test_images_are_grouped_by_distribution(api_as, cast):
    own = Image(
        name="golden",
        label="golden",
        distro="Arch",
        version="1",
        purpose="user",
        public=False,
        status="available",
        account_id=cast.owner.id,
        min_disk=1,
        min_ram=0,
    )
    big = Image(name="big", label="big", distro="Debian", version="13", public=True, status="available", min_disk=999)
    session.add_all([own, big])
    session.commit()
    groups = lambda path: {  # noqa: E731
        row["distro"]: [image["name"] for image in row["images"]] for row in api_as("admin", "GET", path).json["data"]
    }
    assert groups("/api/v1/images/grouped-by-distro") == {"Arch": ["golden"], "Debian": ["big", "tiny"]}
    assert groups("/api/v1/images/grouped-by-distro?purpose=user") == {"Arch": ["golden"]}
    own_instance, foreign = cast.instance("owner"), cast.instance("outsider")
    assert groups(f"/api/v1/instance/{own_instance.id}/images") == {"Arch": ["golden"], "Debian": ["tiny"]}
    assert groups(f"/api/v1/instance/{foreign.id}/images") == {"Debian": ["tiny"]}
    assert api_as("admin", "GET", f"/api/v1/instance/{big.id}/images").status_code == 404
    assert api_as("admin", "GET", "/api/v1/images/grouped-by-distro?purpose=nonsense").status_code == 422
