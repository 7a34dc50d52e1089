"""The system explained: lessons to run, `schedules` written by hand, and the `demo`."""
