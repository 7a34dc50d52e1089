"""Measurements of minitensor itself: each module is a script, `python -m benchmarks.NAME`.

Each prints what it measured beside the bar that it is meant to stay under, and the machine. A bar
that is missed is reported, never an error: machines differ and are noisy. `all` runs them all.
"""
