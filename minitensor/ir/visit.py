"""Traversal: one identity-preserving `map_children`, and what comes from it.

The children of a node follow from the types of its fields, so a new node needs no case here.

Scoping is respected everywhere: the body of a Block sees only the block's iters, so substituting
loop variables stops at its bindings and predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any, Final, NoReturn, TypeVar, get_args, get_type_hints

from minitensor.errors import VerifyError
from minitensor.ir.expr import Binary, Expr, Lanes, Load, Var
from minitensor.ir.stmt import Block, For, Node, Reducer, Stmt, Store

N = TypeVar("N", bound=Node)
V = TypeVar("V")


class _PerNode(dict[type, tuple[str, ...]]):
    """Names of fields by class of node; one error for anything that is not a node."""

    def __missing__(self, kind: type) -> NoReturn:
        raise VerifyError(f"expected a node of a program, but got a {kind.__name__}")


_NODES: Final = frozenset(get_args(Node))


def _holding(kind: type, wanted: frozenset[type]) -> tuple[str, ...]:
    """The fields whose type is one of the classes, a tuple of them, or None, in reading order."""
    types = get_type_hints(kind)
    names = [n for n in _FIELDS[kind] if not wanted.isdisjoint(_leaves(types[n]))]
    order = getattr(kind, "READING_ORDER", _FIELDS[kind])
    return tuple(sorted(names, key=order.index))


def _leaves(annotation: object) -> list[object]:
    """The classes that the type of a field is made of."""
    parts = get_args(annotation)
    return [leaf for part in parts for leaf in _leaves(part)] if parts else [annotation]


_FIELDS: Final = _PerNode({kind: tuple(f.name for f in fields(kind) if f.init) for kind in _NODES})
"""The fields of each node, in the order of its constructor."""
CHILDREN: Final = _PerNode({kind: _holding(kind, _NODES) for kind in _NODES})
"""The fields that hold a node, a tuple of nodes, or None, in reading order."""
_LAST_FIRST: Final = _PerNode({kind: names[::-1] for kind, names in CHILDREN.items()})
_STATEMENTS: Final = _PerNode(
    {kind: _holding(kind, frozenset(get_args(Stmt))) for kind in _NODES} | {Block: ()}
)
"""The fields that hold statements; a block is a leaf."""


def map_children(node: N, f: Callable[[Any], Any]) -> N:
    """`node` with `f` applied to each child; the same object if `f` changed none of them."""
    return _mapped(node, CHILDREN[type(node)], f)


def map_stmts(stmt: Stmt, f: Callable[[Stmt], Stmt]) -> Stmt:
    """`stmt` with `f` applied to each statement directly below it; expressions are left alone."""
    return _mapped(stmt, _STATEMENTS[type(stmt)], f)


def _mapped(node: N, names: tuple[str, ...], f: Callable[[Any], Any]) -> N:
    """`node` with `f` applied to what some of its fields hold."""
    changed: dict[str, object] | None = None
    for name in names:
        old = getattr(node, name)
        if type(old) is tuple:
            mapped = [f(child) for child in old]
            for a, b in zip(old, mapped):
                if a is not b:
                    changed = changed or {}
                    changed[name] = tuple(mapped)
                    break
        elif old is not None:
            new = f(old)
            if new is not old:
                changed = changed or {}
                changed[name] = new
    if changed is None:
        return node
    kind: Callable[..., N] = type(node)
    return kind(*[changed.get(n) or getattr(node, n) for n in _FIELDS[type(node)]])


def stmts_of(stmt: Stmt) -> Iterator[Stmt]:
    """The statement and all below it that are not inside blocks, parents first, in text order."""
    stack = [stmt]
    while stack:
        current = stack.pop()
        yield current
        for name in reversed(_STATEMENTS[type(current)]):
            child = getattr(current, name)
            if type(child) is tuple:
                stack.extend(child[::-1])
            elif child is not None:
                stack.append(child)


def children(node: Node) -> list[Node]:
    """The children of a node, in reading order."""
    found: list[Node] = []
    for name in CHILDREN[type(node)]:
        child = getattr(node, name)
        if type(child) is tuple:
            found.extend(child)
        elif child is not None:
            found.append(child)
    return found


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents before children, in reading order."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        for name in _LAST_FIRST[type(current)]:
            child = getattr(current, name)
            if type(child) is tuple:
                stack.extend(child[::-1])
            elif child is not None:
                stack.append(child)


def rewrite(node: N, f: Callable[[Node], Node]) -> N:
    """`f` applied to every node from the leaves up; `f` returns its argument to leave it alone."""

    def rewritten(node: Any) -> Any:
        names = CHILDREN[type(node)]
        return f(_mapped(node, names, rewritten) if names else node)

    found: N = rewritten(node)
    return found


def substitute(node: N, values: Mapping[str, Expr]) -> N:
    """Free variables replaced by name. Loop variables are not looked for inside blocks."""
    values = {n: e for n, e in values.items() if not (type(e) is Var and e.name == n)}
    if not values:
        return node

    def substituted(node: Any) -> Any:
        kind = type(node)
        if kind is Var:
            return values.get(node.name, node)
        if kind is Block:
            iters = tuple([map_children(i, substituted) for i in node.iters])
            predicate = substituted(node.predicate)
            if predicate is node.predicate and all(a is b for a, b in zip(iters, node.iters)):
                return node
            return Block(node.name, iters, node.body, node.init, predicate, node.annotations)
        if (kind is Lanes or kind is For) and node.var in values:
            return _without(values, node.var, node)
        names = CHILDREN[kind]
        return _mapped(node, names, substituted) if names else node

    found: N = substituted(node)
    return found


def _without(values: Mapping[str, Expr], name: str, binder: N) -> N:
    """A node that binds a name, with the other variables below it replaced."""
    others = {n: value for n, value in values.items() if n != name}
    return map_children(binder, lambda child: substitute(child, others))


def free_vars(node: Node) -> dict[str, Var]:
    """The variables of an expression or of a block-free statement, in order of appearance."""
    if type(node) is Var:
        return {node.name: node}
    found: dict[str, Var] = {}
    for n in walk(node):
        if type(n) is Var:
            found.setdefault(n.name, n)
        elif isinstance(n, (Lanes, For)):
            return _free_vars_under_binders(node)
    return found


def _free_vars_under_binders(node: Node) -> dict[str, Var]:
    found: dict[str, Var] = {}
    stack: list[tuple[Node, frozenset[str]]] = [(node, frozenset())]
    while stack:
        current, bound = stack.pop()
        if isinstance(current, Var) and current.name not in bound:
            found.setdefault(current.name, current)
        if isinstance(current, (Lanes, For)):
            bound |= {current.var}
        stack.extend((child, bound) for child in reversed(children(current)))
    return found


def mentions(expr: Expr, name: str) -> bool:
    """Tell whether the variable `name` occurs in the expression."""
    return any(type(n) is Var and n.name == name for n in walk(expr))


def accesses(node: Node, buffer: str) -> list[Load | Store]:
    """Every Load and Store of a buffer at or below the node, in reading order."""
    return [n for n in walk(node) if isinstance(n, (Load, Store)) and n.buffer == buffer]


def loads(node: Node) -> list[Load]:
    """Every Load below the node, in reading order."""
    return [n for n in walk(node) if isinstance(n, Load)]


def blocks_of(stmt: Stmt) -> list[Block]:
    """Every block below the statement, in the order of the text."""
    return [n for n in stmts_of(stmt) if isinstance(n, Block)]


def loops_of(stmt: Stmt) -> list[For]:
    """Every loop below the statement (outside block bodies), in the order of the text."""
    return [n for n in stmts_of(stmt) if isinstance(n, For)]


def combines(reducer: Reducer) -> str:
    """The operation of a reducer that combines two numbers by one; "" for another."""
    match reducer.results:
        case (Binary(op, Var(a), Var(b)),) if a != b:
            return op
    return ""


def apply_reducer(reducer: Reducer, old: tuple[Expr, ...], new: tuple[Expr, ...]) -> list[Expr]:
    """The expressions that combining `old` with `new` gives."""
    values = {v.name: e for v, e in zip(reducer.lhs + reducer.rhs, old + new)}
    return [substitute(result, values) for result in reducer.results]


def measured(node: Node, measure: Callable[[Any, list[V]], V]) -> V:
    """The value of `measure` for a node, given its values for the children, from the leaves up.

    Without recursion, and once for a part that is shared: a small expression that uses its parts
    again and again is small to this, though not to `walk`.
    """
    known: dict[int, V] = {}
    stack = [node]
    while stack:
        current = stack[-1]
        below = children(current)
        missing = [c for c in below if id(c) not in known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        known[id(current)] = measure(current, [known[id(c)] for c in below])
    return known[id(node)]


def nodes_in(node: Node, most: int) -> int:
    """The number of nodes, shared parts counted each time they are used; `most` if it is more."""
    return sum(1 for _ in islice(walk(node), most))
