"""All names and labels use the field class `Name`."""

import pytest
from marshmallow import ValidationError

from panel.schemas import (
    hypervisors,
    image_captures,
    images,
    instances,
    isos,
    plans,
    resource_packs,
    subnets,
    unmanaged_machines,
    volumes,
)
from panel.schemas.base import Name

NAME_FIELDS = [
    (instances.InstanceIn, "display_name"),
    (instances.InstancePatch, "display_name"),
    (instances.Rename, "display_name"),
    (instances.Rename, "name"),
    (unmanaged_machines.AdoptionIn, "display_name"),
    (plans.PlanIn, "name"),
    (plans.PlanGroupIn, "display_name"),
    (hypervisors.HypervisorGroupIn, "name"),
    (hypervisors.HypervisorGroupIn, "display_name"),
    (hypervisors.HypervisorIn, "name"),
    (resource_packs.PackIn, "name"),
    (subnets.SubnetIn, "name"),
    (image_captures.CaptureIn, "name"),
    (image_captures.ImageRename, "name"),
    (images.ImagePatch, "label"),
    (images.ImageIn, "name"),
    (images.ImageIn, "label"),
    (isos.IsoIn, "name"),
    (isos.IsoPatch, "name"),
    (volumes.VolumeIn, "name"),
    (volumes.VolumeSnapshotIn, "name"),
    (volumes.VolumeRestore, "name"),
    (volumes.VolumePlanIn, "name"),
    (volumes.VolumePlanGroupIn, "display_name"),
]
INVALID_NAMES = [
    " ",
    "   ",
    "\u00a0",
    "\u3000",
    "\u200d",
    "a\u202eb",
    "\u2066a",
    "a\u200bb",
    "a\u2028b",
    "a\x85b",
    "a\nb",
    "\ufeffa",
]


@pytest.mark.parametrize(("schema", "field"), NAME_FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_name_fields_refuse_invisible_and_control_characters(schema, field):
    """No blank names, no control and direction characters; surrounding spaces are removed."""
    name_field = schema().load_fields[field]
    assert isinstance(name_field, Name)
    for value in INVALID_NAMES:
        with pytest.raises(ValidationError):
            name_field.deserialize(value)
    assert name_field.deserialize("  Shop front ") == "Shop front"
    for value in ("ä", "日本", "مرحبا", "🦊", "👩\u200d💻", "#1"):
        assert name_field.deserialize(value) == value


@pytest.mark.parametrize("value", ["\u202eevil", " "])
def test_instance_label_refuses_invisible_characters(api_as, cast, value):
    path = f"/api/instance/{cast.instance().id}"
    answer = api_as("owner", "PATCH", path, json={"display_name": value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["display_name"])
    assert api_as("owner", "PATCH", path, json={"display_name": " Shop "}).json["instance"]["display_name"] == "Shop"
