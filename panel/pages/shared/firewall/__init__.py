"""The pages of security groups and IP sets. Each view is written once and stands twice: for customers, who see their
own and the platform's, and for operators, who see everybody's."""
