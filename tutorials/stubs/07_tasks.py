"""Tasks of lesson 7: fill in the functions, and run `minitensor course check 07`."""


def conflicts(reads, writes, extent):
    """Return two iterations (i, j) of `for i in range(extent)` that conflict; None without any.

    Iteration i reads element c*i + d of an array for each pair (c, d) in `reads`, and writes such
    elements for the pairs in `writes`. Two different iterations conflict if they touch the same
    element, one of them writing. Any such pair will do.
    """
    raise NotImplementedError


def legal_loops(s):
    """Return the names of all loops that s.parallel would accept now, in any order.

    All loops of the schedule are serial, and each is asked for alone. To try it is no answer here:
    `parallel`, `vectorize` and `bind` are taken away.

    ir.loop_sites(s.program)[name].loop is a loop, ir.blocks_of(loop) are the blocks under it; each
    block has `iters`, each of these a `kind` and a `binding`; ir.free_vars(binding) has the
    loops in it. (`from minitensor import ir`)
    """
    raise NotImplementedError


def outermost(s):
    """Make the outermost loop around W parallel; it has at least two iterations.

    `s` is a schedule of a scan W: it may go along any of its axes, and does not carry all of them.
    """
    raise NotImplementedError


def in_parts(s, parts):
    """Let `parts` iterations of a parallel loop read the elements of A, each element once.

    `s` is a schedule of S, the sum or the maximum of all A[k], at least `parts` of them.
    """
    raise NotImplementedError
