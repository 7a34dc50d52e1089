"""The command line: `minitensor COMMAND` or `python -m minitensor COMMAND`.

Each command is a module with a line of TEXT, an EPILOG, `add_arguments` and `run`, which returns
the exit status: 0 done; 1 the work failed, the reason is on stderr; 2 bad usage; 130 interrupted.
Read in this order: `main`, `options`, `console`, `files`, `subject`, `target`; then `doctor`,
`show`, `compile`, `explain`, `viz`, `bench` (with `by_numpy`), `tune`, `log`, `worker`, `fuzz`,
`demo`.
"""

from minitensor.cli.main import main

__all__ = ["main"]
