"""Tasks of lesson 18: fill in the functions, and run `minitensor course check 18`."""

import minitensor as mt


def tiled(space, reduce, structure):
    """Return the names of the loops of a tiled block, outermost first.

    space      names of its spatial axes, in order
    reduce     names of its reduction axes, in order
    structure  letters S and R, as "SSRSRS"

    The parts of axis i are i_0, i_1, … from the outside.
    """
    raise NotImplementedError


def numbers(space, reduce, structure, most):
    """Return how many programs one sketch stands for.

    space, reduce  the extents of axes by their names
    structure      letters S and R: an axis has as many factors as its letter occurs
    most           an innermost factor is not larger than this

    All factors of an axis multiply to its extent, and their order counts.
    """
    raise NotImplementedError


def derive(stages, cores):
    """Return a list of all sketches of a toy program; each is a tuple of pairs (stage, rule).

    stages  in the order of the program, the output last; each a dict: name, space and reduce
            (extents by axes of one letter), reads (pairs of a buffer and its axes), costly
    cores   how many cores there are

    Stages are visited from the last to the first. Rules: "inline", "rfactor outer",
    "rfactor inner", "cache write", "fusion 1", "fusion 2", "tiling", "skip". "cache write" is
    followed by "fusion 1" or "fusion 2" of the same stage.
    """
    raise NotImplementedError


def strips(name, widths):
    """Return a rule (mt.search.Rule) that applies to the block of that name, and to no other.

    It splits the last loop of the block in strips of one of `widths` elements, which is left open
    (sample_categorical), and vectorizes the loop over a strip. No other rule is asked there.
    """
    raise NotImplementedError
