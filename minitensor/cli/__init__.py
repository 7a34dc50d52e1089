"""The command line: `minitensor doctor | demo | show | compile | explain | tune | log`.

Also `python -m minitensor …`.

Each command is a module with two functions, `add_parser` (its arguments) and `run` (what it does,
returning the exit status). Read in this order: `main`, `console`, `subject`; then `doctor`, `show`,
`compile`, `explain`, `tune`, `log`, `demo`. Exit status: 0 done; 1 the work failed, the reason is
on stderr; 2 bad usage; 130 interrupted.
"""

from minitensor.cli.main import main

__all__ = ["main"]
