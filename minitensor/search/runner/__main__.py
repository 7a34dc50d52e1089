"""The processes of a Runner, and the command that reproduces a failure.

python -m minitensor.search.runner compile THREADS
python -m minitensor.search.runner measure TASK SETTINGS GUARDS
python -m minitensor.search.runner reproduce FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from minitensor.search.runner.build import serve_compilers
from minitensor.search.runner.report import reproduce
from minitensor.search.runner.results import Settings
from minitensor.search.runner.runner import serve_measurements


def main() -> None:
    """Run one of them."""
    match sys.argv[1:]:
        case ["compile", threads]:
            serve_compilers(int(threads))
            os._exit(0)  # its threads may wait for the timing lock
        case ["measure", task, settings, guards]:
            serve_measurements(Path(task), Settings(**json.loads(settings)), Path(guards))
        case ["reproduce", folder]:
            sys.exit(reproduce(Path(folder)))
        case _:
            sys.exit("usage: python -m minitensor.search.runner reproduce FOLDER")


if __name__ == "__main__":
    main()
