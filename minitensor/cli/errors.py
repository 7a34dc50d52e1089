"""The two ways in which a command itself can fail; the library's errors come as they are."""


class UsageError(Exception):
    """The command line names something that does not exist or does not fit together: status 2."""


class CommandError(Exception):
    """The work failed for a reason outside the library: status 1."""
