"""`python -m minitensor`: the command line."""

import sys

from minitensor.cli import main

sys.exit(main())
