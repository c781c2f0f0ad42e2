"""Rate limits: sliding windows, the API's budgets, sign-in attempts."""
