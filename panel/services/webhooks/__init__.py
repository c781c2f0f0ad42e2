"""Webhooks: subscriptions, fan-out, delivery, and the addresses they may go to."""
