"""Tasks of lesson 13: fill in the functions, and run `minitensor course check 13`."""

import minitensor as mt


def touching_padding(h, w, kernel, stride, padding):
    """Return how many multiplications have a zero of the padding as a factor.

    One input channel of h x w, one output channel, a window of kernel x kernel.
    """
    raise NotImplementedError


def define(c, h, w, f, kernel, stride, padding):
    """Return the program of a convolution of one image, all of float32.

    Its inputs are data, of c x h x w elements, and weight, of f x c x kernel x kernel; its output
    is conv, of f channels, with as many rows and columns as the window has places.
    """
    raise NotImplementedError


def fuse(s, most):
    """Change the schedule of a layer: no more than `most` elements of intermediate arrays.

    The layer is mt.workloads.conv2d_bias_relu; it has a stage pad only where there is padding.
    No multiplication is to be done twice.
    """
    raise NotImplementedError


def strips(s, rows):
    """Change the schedule of a convolution: pad is made for `rows` rows of the output at a time.

    All output channels use the same strip. The rows divide those of the output.
    """
    raise NotImplementedError
