"""The two ways in which a command itself can fail; the library's errors come as they are."""


class UsageError(Exception):
    """The command line asks for something that does not exist or cannot go together: status 2."""


class CommandError(Exception):
    """The work failed for a reason outside the library: status 1."""
