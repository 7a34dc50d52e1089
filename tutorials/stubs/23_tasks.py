"""Tasks of lesson 23: fill in the functions, and run `minitensor course check 23`."""

from minitensor.graph import Rule, Var, call


def rules():
    """Return a list of rules for two transposes around an elementwise operator.

    The operator is relu, sigmoid, tanh, exp or neg. Where the second transpose undoes the first,

        transpose(relu(transpose(x, axes=(1, 2, 0))), axes=(2, 0, 1))

    is relu(x), and nothing else changes; other pairs of transposes stay as they are. `axes` is an
    attribute: `node.attribute("axes")` is a tuple, in which -1 is the last axis, or None, which
    reverses all axes. A pattern gives a name to a node inside of it: call("transpose", X,
    name="inner") is match.nodes["inner"], and the outermost node is match.node. A rule that
    returns None does not apply. `made.relu(match.x)` makes a node; so does
    getattr(made, "relu")(match.x).
    """
    raise NotImplementedError


def meets(users, outputs):
    """Return a dictionary: for each node its immediate post-dominator, or None.

    users    for each node, by name, the list of the nodes that read it; the nodes are in an order
             in which they can run
    outputs  the names of the nodes that the graph returns; from each node a path leads to one

    It is the first node in which all paths from a node to an output meet, after the node itself. An
    output has none, even if others read it, for a path ends there. Hundreds of nodes are no
    problem, though their paths are too many to look at.
    """
    raise NotImplementedError


def groups(kinds, users, outputs):
    """Return the groups of nodes that become one kernel each, as a list of lists of names.

    kinds           for each node, in an order in which they can run, "product" or "elementwise"
    users, outputs  as in `meets`

    At first each node is a group. Go over all nodes in order, twice: the first time only nodes
    whose group has a product count, the second time only those whose group has none. Let s be the
    immediate post-dominator of the node n. If there is one, and it is not in n's group yet, look at
    the groups of s and of all nodes on paths from n to s. If none of these has a product, then they
    and the group of n become one group.
    """
    raise NotImplementedError
