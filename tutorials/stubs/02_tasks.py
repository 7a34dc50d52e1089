"""Tasks of lesson 2: fill in the functions, and run `minitensor course check 02`."""


def intensity(m, n, k, dtype):
    """Return the operations per byte of a product of m by k and k by n elements.

    Each element of the three arrays is moved once; dtype is "float16", "float32" or "float64".
    """
    raise NotImplementedError


def attainable(operations, moved, peak, bandwidth):
    """Return (rate, bound): operations a second by the roofline, and "memory" or "compute".

    moved is in bytes, peak in operations a second, bandwidth in bytes a second.
    """
    raise NotImplementedError


def summary(results):
    """Return one time for a list of results, of which up to four in ten are disturbed."""
    raise NotImplementedError


def compare(a, b):
    """Return "faster", "slower" or "undecided" of b, for times of a and b in the same rounds."""
    raise NotImplementedError
