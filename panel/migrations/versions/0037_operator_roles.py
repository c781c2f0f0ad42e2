"""Roles of operators beside the built-in ones."""

import sqlalchemy as sa
from alembic import op

revision = "0037_operator_roles"
down_revision = "0036_mass_mail_templates"


def upgrade():
    op.create_table('operator_roles',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=16), nullable=False),
    sa.Column('description', sa.String(length=255), nullable=False),
    sa.Column('permissions', sa.JSON(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_operator_roles'))
    )
    with op.batch_alter_table('operator_roles', schema=None) as batch_op:
        batch_op.create_index('ix_operator_roles_name', ['name'], unique=True)


def downgrade():
    op.drop_table('operator_roles')
