"""Passes of one's own."""

from minitensor import ir


def count_stores(program, target):
    """Change nothing, but for an annotation of the outermost loop: the stores of the program."""
    loop = program.body
    stores = sum(isinstance(s, ir.Store) for s in ir.stmts_of(loop))
    notes = (*loop.annotations, ("stores", stores))
    return program.replace(body=ir.For(loop.var, loop.extent, loop.body, loop.kind, notes))


def negated(program, target):
    """Store the negative of every value: a wrong pass, to see that it ran."""

    def one(node):
        if isinstance(node, ir.Store):
            return ir.Store(node.buffer, node.indices, ir.Unary("-", node.value))
        return node

    return program.replace(body=ir.rewrite(program.body, one))


def malformed(program, target):
    """Leave a loop whose variable is taken."""
    return program.replace(body=ir.For("i", 2, ir.For("i", 2, program.body)))


def forgetful(program, target):
    """Return nothing."""


def without_parameters(program, target):
    """Drop the parameters."""
    return program.replace(params=program.params[1:], body=ir.NOTHING)


def without_stores(program, target):
    """A pass that leaves nothing of the body."""
    return program.replace(body=ir.Seq(()))


def of_a_program_alone(program):
    """A pass that does not take the target."""
    return program
