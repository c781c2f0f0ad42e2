"""The language that a person has chosen, and the browser's at the last sign-in."""

import sqlalchemy as sa
from alembic import op

revision = "0026_user_language"
down_revision = "0025_alert_rules"


def upgrade():
    with op.batch_alter_table("accounts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("language", sa.String(length=16), nullable=True))
        batch_op.add_column(sa.Column("browser_language", sa.String(length=16), nullable=True))


def downgrade():
    with op.batch_alter_table("accounts", schema=None) as batch_op:
        batch_op.drop_column("browser_language")
        batch_op.drop_column("language")
