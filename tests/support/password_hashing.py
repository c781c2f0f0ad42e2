"""The product's password hasher, and a fast one for tests."""

from argon2 import PasswordHasher

from panel.services import accounts

PRODUCTION_HASHER, PRODUCTION_NOBODY_HASH = accounts.hasher, accounts.DUMMY_PASSWORD_HASH

FAST_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""The product's hasher takes 0.2 seconds a password; tests hash hundreds, so they use a fast one."""
