"""The process that `child` starts."""

import sys
from pathlib import Path

from minitensor.sanitize.child import main

main(Path(sys.argv[1]))
