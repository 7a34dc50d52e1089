"""The two ways in which a command itself can fail; the library's errors come as they are."""


class UsageError(Exception):
    """The command line asks for something that does not exist or cannot go together: status 2."""


class CommandError(Exception):
    """The work failed, for a reason that is not the library's to tell: status 1."""


def reason(failure: OSError | ValueError) -> str:
    """Why a file cannot be read or written, in a few words."""
    if isinstance(failure, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if isinstance(failure, OSError):
        return failure.strerror or ""
    return "no file can have that name"
