"""Pass: tiles in shared memory hold zeros behind the edges of arrays, so that sums ask nothing.

    before  if i + r < m and k + c < n: S[r, c] = A[i + r, k + c]
            barrier()
            if i + y < m and k + l < n: sum[y] = sum[y] + S[y, l] * T[l, x]
            if i + y < m: C[i + y] = sum[y]

    after   S[r, c] = A[i + r, k + c] if i + r < m and k + c < n else 0
            barrier()
            sum[y] = sum[y] + S[y, l] * T[l, x]
            if i + y < m: C[i + y] = sum[y]

A condition of a sum is one of two kinds. Where it fails, all factors are zeros that the tiles were
filled with (k + l < n): adding their product changes nothing. Or the sum is then one that nothing
reads, for each read of it stands under the same condition (i + y < m): it may hold anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minitensor import arith, ir
from minitensor.codegen.gpu.kernels import Kernel, is_host, kernel_of
from minitensor.codegen.target import Target

_PRIVATE = (ir.Scope.LOCAL, ir.Scope.REGISTER)


def fill_tiles(program: ir.Program, target: Target) -> ir.Program:
    """The program whose sums over tiles have no conditions that filled tiles make needless."""
    return program.replace(body=_host(program.body))


def _host(stmt: ir.Stmt) -> ir.Stmt:
    if is_host(stmt):
        return ir.map_stmts(stmt, _host)
    kernel = kernel_of(stmt)
    if not kernel.shared or not kernel.threads:
        return stmt
    body = _Filler(kernel).body()
    return Kernel(kernel.blocks, kernel.shared, kernel.threads, body).stmt


@dataclass(frozen=True, slots=True)
class Edge:
    """The condition `base + sum of times * index < 0` on the elements of a buffer.

    times  for each axis the multiple of its index
    base   the rest, which is the same for all elements
    """

    times: tuple[int, ...]
    base: arith.Linear

    def at(self, indices: Sequence[arith.Linear]) -> arith.Linear:
        """The sum, for one element."""
        total = self.base
        for times, index in zip(self.times, indices):
            total = total.plus(index.times(times))
        return total

    def matches(self, other: Edge) -> bool:
        """Tell whether both are the same condition."""
        return self.times == other.times and _is_zero(self.base.minus(other.base))


@dataclass(frozen=True, slots=True)
class Site:
    """A store, the conditions around it, and the loops of the kernel around it."""

    stmt: ir.Store
    guards: tuple[ir.Expr, ...]
    path: tuple[ir.For, ...]


class _Filler:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = {buffer.name: buffer for buffer in kernel.shared}
        self.opaque: set[str] = set()
        """Buffers that more is done with than plain stores under plain conditions."""
        self.private: dict[str, frozenset[str]] = {}
        """A thread's own arrays, with the loops around their allocations."""
        self.sites = list(self.sites_in(kernel.body, (), (*kernel.blocks, *kernel.threads)))
        self.filled: dict[str, list[Edge]] = {}
        """The tiles that can be filled, with the conditions under which they hold no zeros."""
        for buffer in kernel.shared:
            edges = self.edges_of_tile(buffer)
            if edges is not None:
                self.filled[buffer.name] = edges
        self.copies: dict[str, Site] = {}
        """A thread's own arrays that are copied from such tiles, each with its store."""
        for name in sorted(self.private.keys() - self.opaque):
            site = self.copy_to(name)
            if site is not None:
                self.copies[name] = site
        self.dropped: dict[int, set[ir.Expr]] = {}
        """By the identity of a store, the conditions that it does not need."""
        self.needed: set[str] = set()
        """The tiles that must be filled for that."""
        for name in sorted(self.private.keys() - self.opaque):
            self.relax(name)

    def sites_in(
        self, stmt: ir.Stmt, guards: tuple[ir.Expr, ...], path: tuple[ir.For, ...]
    ) -> Iterator[Site]:
        match stmt:
            case ir.Store():
                yield Site(stmt, guards, path)
            case ir.For(_, _, body):
                yield from self.sites_in(body, guards, (*path, stmt))
            case ir.Seq(stmts):
                for child in stmts:
                    yield from self.sites_in(child, guards, path)
            case ir.If(condition, then, None) if not ir.loads(condition):
                yield from self.sites_in(then, (*guards, *ir.conjuncts(condition)), path)
            case ir.Alloc(buffer, body):
                self.buffers[buffer.name] = buffer
                if buffer.scope in _PRIVATE:
                    self.private[buffer.name] = frozenset(loop.var for loop in path)
                yield from self.sites_in(body, guards, path)
            case _:
                touched = (n for n in ir.walk(stmt) if isinstance(n, (ir.Load, ir.Store)))
                self.opaque.update(node.buffer for node in touched)
                if isinstance(stmt, ir.ThreadReduce):
                    self.opaque.update(stmt.buffers)

    # ---- tiles

    def edges_of_tile(self, buffer: ir.Buffer) -> list[Edge] | None:
        """The conditions under which a tile holds elements; None if it cannot be filled."""
        stores = [site for site in self.sites if site.stmt.buffer == buffer.name]
        if buffer.name in self.opaque or len(stores) != 1 or buffer.dtype.kind == "bool":
            return None
        (site,) = stores
        if any(load.buffer == buffer.name for load in ir.loads(site.stmt)):
            return None
        forms, ranges = self.forms(site, site.stmt.indices)
        moving = [loop for loop in site.path if any(f.mentions_any([loop.var]) for f in forms)]
        free = frozenset(loop.var for loop in moving)
        count = 1
        for loop in moving:
            count *= loop.extent
            if not arith.separates(loop.var, forms, forms, free, ranges):
                return None
        if count != math.prod(buffer.shape) or not self.inside(buffer, forms, ranges):
            return None  # not all of its elements would be filled
        edges = [self.edge(guard, site, forms, free) for guard in site.guards]
        return None if None in edges else [edge for edge in edges if edge is not None]

    def forms(
        self, site: Site, indices: tuple[ir.Expr, ...]
    ) -> tuple[list[arith.Linear], arith.Ranges]:
        """Indices as linear forms, and the ranges of the loops around."""
        ranges = {loop.var: arith.extent_range(loop.extent) for loop in site.path}
        simplifier = arith.Simplifier(ranges)
        return [simplifier.linear(index) for index in indices], ranges

    def inside(self, buffer: ir.Buffer, forms: list[arith.Linear], ranges: arith.Ranges) -> bool:
        """Tell whether indices are inside of a buffer whatever conditions hold."""
        spans = [form.interval(ranges) for form in forms]
        return all(s.lo >= 0 and s.hi < extent for s, extent in zip(spans, buffer.shape))

    def edge(
        self, guard: ir.Expr, site: Site, forms: list[arith.Linear], free: frozenset[str]
    ) -> Edge | None:
        """A condition in terms of the indices of the buffer that a site stores to; None if it is
        of another kind.

        free  the variables that the indices move with
        """
        form = self.less(guard, site)
        if form is None:
            return None
        times = []
        base = form
        for index in forms:
            atom, step = next(iter(index.terms.items()), (None, 1))
            count, rest = divmod(form.terms.get(atom, 0), step)
            times.append(0 if rest else count)
            base = base.minus(index.times(times[-1]))
        return None if base.mentions_any(free) else Edge(tuple(times), base)

    def less(self, guard: ir.Expr, site: Site) -> arith.Linear | None:
        """The difference that a condition a < b asks to be negative; None for another one."""
        if not isinstance(guard, ir.Binary) or guard.op != "<" or guard.a.dtype != ir.INDEX:
            return None
        (form,), _ = self.forms(site, (ir.arithmetic("-", guard.a, guard.b),))
        return form

    def copy_to(self, name: str) -> Site | None:
        """The store that fills an array from a tile, element by element; None if there is none."""
        stores = [site for site in self.sites if site.stmt.buffer == name]
        value = stores[0].stmt.value if len(stores) == 1 else None
        if not isinstance(value, ir.Load) or value.buffer not in self.filled:
            return None
        (site,) = stores
        inner = {loop.var: loop.extent for loop in site.path}
        names = [index.name for index in site.stmt.indices if isinstance(index, ir.Var)]
        whole = tuple(inner.get(v) for v in names) == self.buffers[name].shape
        own = len(set(names)) == len(names) and not self.private[name] & set(names)
        return (
            site if whole and own and self.is_inside(site) and self.follows(site, value) else None
        )

    def source(self, load: ir.Load) -> ir.Load:
        """The element of a tile that is loaded, by way of a copy if it is."""
        site = self.copies.get(load.buffer)
        if site is None:
            return load
        values = {v.name: e for v, e in zip(site.stmt.indices, load.indices)}  # type: ignore[union-attr]
        found = ir.substitute(site.stmt.value, values)
        assert isinstance(found, ir.Load)
        return found

    def follows(self, site: Site, load: ir.Load) -> bool:
        """Tell whether what is loaded at a site is stored before it, in the order of the text."""
        order = [other.stmt.buffer for other in self.sites]
        return order.index(load.buffer) < self.sites.index(site)

    # ---- sums

    def relax(self, name: str) -> None:
        """Find the conditions that the sums in an array of a thread's own do not need."""
        begins, updates = [], []
        for site in self.sites:
            if site.stmt.buffer != name:
                continue
            step = _step(site.stmt)
            if step is not None:
                updates.append((site, step))
            elif _is_plus_zero(site.stmt.value):
                begins.append(site)
            else:
                return
        if not updates or not begins or not all(self.is_clean(*update) for update in updates):
            return
        stores = [*begins, *(site for site, _ in updates)]
        if not all(self.is_inside(site) for site in stores):
            return
        reads = list(self.reads_of(name))
        found: dict[int, set[ir.Expr]] = {}
        for site, step in updates:
            for guard in site.guards:
                if self.adds_nothing(site, step, guard) or self.is_unread(site, guard, reads):
                    found.setdefault(id(site.stmt), set()).add(guard)
        if not found:
            return
        for site in begins:  # each sum has a begin, also one that nothing reads
            if not all(self.is_unread(site, guard, reads) for guard in site.guards):
                return
            found.setdefault(id(site.stmt), set()).update(site.guards)
        self.dropped |= found
        for _, step in updates:
            for load in ir.loads(step):
                self.needed.add(self.source(load).buffer)
                if load.buffer in self.copies:
                    copy = self.copies[load.buffer]
                    self.dropped.setdefault(id(copy.stmt), set()).update(copy.guards)

    def is_clean(self, site: Site, step: ir.Expr) -> bool:
        """Tell whether what is added is computed from tiles alone that are filled before."""
        loads = ir.loads(step)
        return all(
            self.source(load).buffer in self.filled and self.follows(site, load) for load in loads
        )

    def is_inside(self, site: Site) -> bool:
        """Tell whether all that a site accesses is there, whatever conditions hold."""
        accesses: list[ir.Load | ir.Store] = [site.stmt, *ir.loads(site.stmt.value)]
        for access in accesses:
            forms, ranges = self.forms(site, access.indices)
            if not self.inside(self.buffers[access.buffer], forms, ranges):
                return False
        return True

    def reads_of(self, name: str) -> Iterator[tuple[Site, ir.Load]]:
        """The reads of an array but for those of its own updates."""
        for site in self.sites:
            own = site.stmt.buffer == name and _step(site.stmt) is not None
            values = () if own else ir.loads(site.stmt)
            for load in values:
                if load.buffer == name:
                    yield site, load

    def adds_nothing(self, site: Site, step: ir.Expr, guard: ir.Expr) -> bool:
        """Tell whether zeros alone are added where the condition does not hold."""
        form = self.less(guard, site)
        if form is None or not _vanishes(step):
            return False
        for load in map(self.source, ir.loads(step)):
            indices, _ = self.forms(site, load.indices)
            edges = self.filled[load.buffer]
            if not any(_is_zero(form.minus(edge.at(indices))) for edge in edges):
                return False
        return True

    def is_unread(self, site: Site, guard: ir.Expr, reads: list[tuple[Site, ir.Load]]) -> bool:
        """Tell whether sums for which the condition does not hold are read nowhere."""
        mine = self.edge_at(site, guard)
        changing = {loop.var for loop in site.path} - self.private[site.stmt.buffer]
        if mine is None or mine.base.mentions_any(changing):
            return False
        for other, load in reads:
            forms, _ = self.forms(other, load.indices)
            free = _moving(other, forms)
            edges = (self.edge(g, other, forms, free) for g in other.guards)
            if not any(edge is not None and edge.matches(mine) for edge in edges):
                return False
        return True

    def edge_at(self, site: Site, guard: ir.Expr) -> Edge | None:
        """A condition around a store in terms of the element that is stored to."""
        forms, _ = self.forms(site, site.stmt.indices)
        return self.edge(guard, site, forms, _moving(site, forms))

    # ---- the new body

    def body(self) -> ir.Stmt:
        """The statement of the threads, without the conditions that are not needed."""
        if not self.dropped:
            return self.kernel.body
        return self.statement(self.kernel.body, ())

    def statement(self, stmt: ir.Stmt, guards: tuple[ir.Expr, ...]) -> ir.Stmt:
        match stmt:
            case ir.If(condition, then, None) if not ir.loads(condition):
                return self.statement(then, (*guards, *ir.conjuncts(condition)))
            case ir.For() | ir.Seq() | ir.Alloc():
                return ir.map_stmts(stmt, lambda child: self.statement(child, guards))
            case ir.Store(buffer, indices, value) if buffer in self.needed and guards:
                zero = ir.const(0, value.dtype)
                return ir.Store(
                    buffer, indices, ir.Select(ir.conjunction(guards), value, zero, lazy=True)
                )
            case ir.Store():
                left = [g for g in guards if g not in self.dropped.get(id(stmt), ())]
                return ir.If(ir.conjunction(left), stmt) if left else stmt
        return ir.If(ir.conjunction(guards), stmt) if guards else stmt


def _moving(site: Site, forms: list[arith.Linear]) -> frozenset[str]:
    """The variables around a site that indices move with."""
    return frozenset(v.var for v in site.path if any(f.mentions_any([v.var]) for f in forms))


def _is_zero(form: arith.Linear) -> bool:
    return not form.terms and form.constant == 0


def _is_plus_zero(value: ir.Expr) -> bool:
    return isinstance(value, ir.Const) and value.value == 0 and math.copysign(1, value.value) > 0


def _step(store: ir.Store) -> ir.Expr | None:
    """The term that a store adds to the element that it stores to; None if it does something
    else.
    """
    value = store.value
    if isinstance(value, ir.Binary) and value.op == "+":
        for old, step in ((value.a, value.b), (value.b, value.a)):
            if isinstance(old, ir.Load) and (old.buffer, old.indices) == (
                store.buffer,
                store.indices,
            ):
                inner = [load.buffer for load in ir.loads(step)]
                return step if store.buffer not in inner else None
    return None


def _vanishes(expr: ir.Expr) -> bool:
    """Tell whether an expression is 0 where all that it loads is 0."""
    match expr:
        case ir.Load():
            return True
        case ir.Cast(_, a) | ir.Unary("-", a):
            return _vanishes(a)
        case ir.Binary("*" | "+" | "-", a, b):
            return _vanishes(a) and _vanishes(b)
    return False
