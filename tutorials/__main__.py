"""The commands of the course, of whatever name this folder has: `python -m NAME check 01`."""

import argparse
import sys

from minitensor.cli.main import perform
from minitensor.cli.options import Parser

from .course import command
from .course.place import COMMAND


def main() -> int:
    """Run a command; its exit status."""
    parser = Parser(
        prog=COMMAND,
        description=command.TEXT,
        epilog=command.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
    return perform(parser, None)


if __name__ == "__main__":
    sys.exit(main())
