"""The pages of security groups and IP sets, written once for both areas.

Customers see their own and the platform's, operators see all."""
