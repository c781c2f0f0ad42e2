"""Operators' pages have a label for every value of an enumeration."""

import pytest

from panel.pages.admin import labels
from panel.schemas import constants
from panel.schemas.audit import PERSON_KINDS
from panel.schemas.migrations import MIGRATION_STATUSES


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (labels.ADDRESS_USES, constants.ADDRESS_USES),
        (labels.HYPERVISOR_STATUSES, constants.HYPERVISOR_STATUSES),
        (labels.IMAGE_PURPOSES, constants.IMAGE_PURPOSES),
        (labels.INSTANCE_STATES, constants.INSTANCE_STATES),
        (labels.MIGRATION_STATUSES, MIGRATION_STATUSES),
        (labels.PERSON_KINDS, PERSON_KINDS),
    ],
)
def test_label_tables_have_all_values(table, values):
    assert list(table) == list(values)
