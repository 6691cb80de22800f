"""What the dashboard does for one session. Knows no HTTP."""
