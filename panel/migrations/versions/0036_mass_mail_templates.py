"""Templates of mass mails."""

import sqlalchemy as sa
from alembic import op

revision = "0036_mass_mail_templates"
down_revision = "0035_instances_with_problems"


def upgrade():
    op.create_table('mass_mail_templates',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=100), nullable=False),
    sa.Column('subject', sa.String(length=255), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_mass_mail_templates'))
    )
    with op.batch_alter_table('mass_mail_templates', schema=None) as batch_op:
        batch_op.create_index('ix_mass_mail_templates_name', ['name'], unique=True)


def downgrade():
    op.drop_table('mass_mail_templates')
