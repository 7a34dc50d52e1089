"""Tasks of lesson 29: fill in the functions, and run `minitensor course check 29`."""

import numpy as np

import minitensor as mt


def parameters(low, high):
    """Return (scale, zero_point) of the uint8 code for numbers from low to high.

    The range is widened to contain 0, which is a byte: the zero point is an int from 0 to 255.
    """
    raise NotImplementedError


def product(a, b, zero_a, zero_b):
    """Return the sums of (a - zero_a) * (b - zero_b) over the common axis, as an array of int32.

    a (m, k) is of uint8, b (k, n) of int8; zero_a is a uint8 and zero_b an int8, as Python's ints.
    """
    raise NotImplementedError


def error(n, rms_a, rms_b, largest_a, largest_b):
    """Return the root of the mean square error of a sum of n products of int8 codes.

    The step of each code is its largest number over 127.
    """
    raise NotImplementedError


def define(m, n, k, zero):
    """Return the program of C = sum of (A - zero) * B, in int32.

    Inputs A (m, k) of uint8 and B (k, n) of int8, output C (m, n); zero is an int from 0 to 255.
    """
    raise NotImplementedError
