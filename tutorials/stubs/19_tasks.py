"""Tasks of lesson 19: fill in the functions, and run `minitensor course check 19`."""

import numpy as np


def touched(loops, depth):
    """Return how many different elements of a buffer are touched while the innermost loops run.

    `loops` are pairs (iterations, step), from outside to inside: in iteration n of a loop the
    access is n * step elements further. The innermost `depth` loops run, the others stand still.
    So [(4, 8), (3, 1)] touches the elements 0, 1, 2 at depth 1, and twelve at depth 2.
    """
    raise NotImplementedError


def best_split(x, y, w):
    """Return (threshold, gain) of the best split of one feature; None if no split helps.

    x, y and w are arrays of n numbers: the feature, the label and the weight of each sample. The
    guess of a group is the weighted mean of its labels, its error the sum of w * (y - guess)**2.
    Samples with x <= threshold go left, and none of the two groups is empty. The gain is the error
    without the split less the errors of both groups. Where several splits are best, any will do.
    """
    raise NotImplementedError


def spearman(a, b):
    """Return Spearman's rank correlation of two lists of the same length.

    Equal numbers share the mean of their ranks. Where one list is constant, or has fewer than two
    numbers, return 0.0.
    """
    raise NotImplementedError


def boost(y, leaves, rate):
    """Return the scores (an array) of n samples after boosting for the squared loss.

    y is the array of labels. Each element of `leaves` is a tree that was grown already: an array
    of n integers, the leaf that each sample is in. Scores begin with the mean of the labels; each
    tree in turn adds to each sample `rate` times the mean residual of the samples in its leaf.
    """
    raise NotImplementedError
