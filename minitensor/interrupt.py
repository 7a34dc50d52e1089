"""Ctrl-C while the command line is still being imported: a line in the place of a traceback.

Imported before anything else, it does something only in a process that runs the command. From its
first instruction on, `cli.main` has the same line.
"""

import os
import sys
from types import TracebackType

COMMANDS = ("minitensor", "-m")
"""The name of a process that runs the command; the second while its package is imported."""


def _shown(kind: type[BaseException], failure: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("\ninterrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, failure, trace)


if os.path.basename(sys.argv[0] if sys.argv else "") in COMMANDS:
    sys.excepthook = _shown
