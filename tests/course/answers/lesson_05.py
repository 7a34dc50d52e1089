import ctypes
import itertools
import math

import numpy as np

import minitensor as mt
from minitensor import ir


def offset(shape, index):
    place = 0
    for extent, i in zip(shape, index):
        place = place * extent + i
    return place


def offset_by_strides(shape, index):
    return sum(i * math.prod(shape[axis + 1 :]) for axis, i in enumerate(index))


def offset_by_numpy(shape, index):
    return np.ravel_multi_index(index, shape) if shape else 0


def offset_column_major(shape, index):
    place = 0
    for extent, i in zip(reversed(shape), reversed(index)):
        place = place * extent + i
    return place


def offset_with_its_own_extent(shape, index):
    return sum(i * math.prod(shape[axis:]) for axis, i in enumerate(index))


def offset_of_two_axes(shape, index):
    return index[0] * shape[1] + index[1] if len(shape) == 2 else offset(shape[-2:], index[-2:])


def offset_of_some_axes(shape, index):
    return offset(shape[1:], index[1:]) + index[0] * math.prod(shape[1:])


def unflatten(shape, place):
    index = []
    for extent in reversed(shape):
        place, i = divmod(place, extent)
        index.append(i)
    return tuple(reversed(index))


def unflatten_by_strides(shape, place):
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(place // stride % extent for stride, extent in zip(strides, shape))


def unflatten_by_counting(shape, place):
    return list(next(itertools.islice(itertools.product(*map(range, shape)), place, None)))


def unflatten_backwards(shape, place):
    return unflatten(shape, place)[::-1]


def unflatten_without_remainder(shape, place):
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(place // stride for stride in strides)


def unflatten_by_extents(shape, place):
    return tuple(place // extent % extent for extent in shape)


def unflatten_a_number(shape, place):
    found = unflatten(shape, place)
    return found[0] if len(found) == 1 else found


def stored(value, bits, signed):
    value %= 2**bits
    return value - 2**bits if signed and value >= 2 ** (bits - 1) else value


def stored_by_numpy(value, bits, signed):
    return np.int64(value).astype(f"{'int' if signed else 'uint'}{bits}")


def stored_by_ctypes(value, bits, signed):
    return getattr(ctypes, f"c_{'' if signed else 'u'}int{bits}")(value).value


def stored_by_masks(value, bits, signed):
    low = value & ((1 << bits) - 1)
    return low - ((low >> (bits - 1)) << bits) if signed else low


def stored_clamped(value, bits, signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return min(max(value, low), high)


def stored_always_signed(value, bits, signed):
    return stored(value, bits, True)


def stored_of_8_bits(value, bits, signed):
    return stored(value, 8, signed)


def stored_off_by_one(value, bits, signed):
    value %= 2**bits
    return value - 2**bits if signed and value > 2 ** (bits - 1) else value


def emit(program):
    def value(e):
        match e:
            case ir.Load(buffer, indices):
                return at(buffer, indices)
            case ir.Const(number):
                return f"({number})"
            case ir.Var(name):
                return name
            case ir.Binary(op, a, b):
                return f"({value(a)} {op} {value(b)})"

    def at(buffer, indices):
        text = "0"
        for extent, index in zip(program.buffers[buffer].shape, indices):
            text = f"({text}) * {extent} + {value(index)}"
        return f"{buffer}[{text}]"

    def statement(s):
        match s:
            case ir.For(var, extent, body):
                head = f"for (int64_t {var} = 0; {var} < {extent}; ++{var})"
                return f"{head} {{\n{statement(body)}\n}}"
            case ir.Seq(stmts):
                return "\n".join(map(statement, stmts))
            case ir.Store(buffer, indices, e):
                return f"{at(buffer, indices)} = {value(e)};"

    return statement(program.body)


def emit_in_another_style(program):
    """C of few brackets, of floats with an f, of += and loops that count otherwise."""
    lines = []

    def value(e, level=0):
        if isinstance(e, ir.Binary):
            own = 1 if e.op in ("+", "-") else 2
            text = f"{value(e.a, own)}{e.op}{value(e.b, own + 1)}"
            return f"({text})" if own < level else text
        if isinstance(e, ir.Load):
            return place(e)
        if isinstance(e, ir.Var):
            return e.name
        text = f"{e.value}f" if isinstance(e.value, float) else str(e.value)
        return f"({text})" if e.value < 0 else text

    def place(node):
        shape = program.buffers[node.buffer].shape
        terms = [
            f"{value(index, 2)}*{math.prod(shape[axis + 1 :])}"
            for axis, index in enumerate(node.indices)
        ]
        return f"{node.buffer}[{'+'.join(terms) or 0}]"

    def walk(s, margin):
        if isinstance(s, ir.For):
            i = s.var
            lines.append(f"{margin}for (int {i} = 0; {i} <= {s.extent - 1}; {i} += 1) {{ // {i}")
            walk(s.body, margin + "\t")
            lines.append(f"{margin}}}")
        elif isinstance(s, ir.Seq):
            for one in s.stmts:
                walk(one, margin)
        else:
            own = isinstance(s.value, ir.Binary) and s.value.op == "+"
            if own and place(s) == value(s.value.a):
                lines.append(f"{margin}{place(s)} += {value(s.value.b)};")
            else:
                lines.append(f"{margin}{place(s)} = {value(s.value)};")

    walk(program.body, "")
    return "/* loops */\n" + "\n".join(lines)


def emit_with_variables(program):
    """Every value in a variable of its own."""
    lines, names = [], itertools.count()

    def named(text, kind):
        name = f"t{next(names)}"
        lines.append(f"const {kind} {name} = {text};")
        return name

    def value(e):
        if isinstance(e, ir.Var):
            return e.name
        kind = "float" if str(e.dtype).startswith("float") else "int64_t"
        if isinstance(e, ir.Const):
            return named(f"({kind}){e.value}", kind)
        if isinstance(e, ir.Load):
            return named(f"{e.buffer}[{place(e)}]", kind)
        return named(f"{value(e.a)} {e.op} {value(e.b)}", kind)

    def place(node):
        found = named("0", "int64_t")
        for extent, index in zip(program.buffers[node.buffer].shape, node.indices):
            found = named(f"{found} * {extent} + {value(index)}", "int64_t")
        return found

    def walk(s):
        if isinstance(s, ir.For):
            lines.append(f"for (size_t {s.var} = 0; {s.var} != {s.extent}; {s.var}++) {{")
            walk(s.body)
            lines.append("}")
        elif isinstance(s, ir.Seq):
            [walk(one) for one in s.stmts]
        else:
            found = value(s.value)
            lines.append(f"{s.buffer}[{place(s)}] = {found};")

    walk(program.body)
    return "\n".join(lines)


def emit_without_value_brackets(program):
    def value(e):
        if isinstance(e, ir.Binary):
            return f"{value(e.a)} {e.op} {value(e.b)}"
        return str(e.value) if isinstance(e, ir.Const) else emit_value(program, e)

    def walk(s):
        if isinstance(s, ir.For):
            return f"for (int {s.var} = 0; {s.var} < {s.extent}; {s.var}++) {{ {walk(s.body)} }}"
        if isinstance(s, ir.Seq):
            return " ".join(map(walk, s.stmts))
        return f"{emit_value(program, s)} = {value(s.value)};"

    return walk(program.body)


def emit_value(program, node):
    """A place or a variable, with brackets."""
    if isinstance(node, ir.Var):
        return node.name
    if isinstance(node, ir.Const):
        return f"({node.value})"
    if isinstance(node, ir.Binary):
        return f"({emit_value(program, node.a)} {node.op} {emit_value(program, node.b)})"
    shape = program.buffers[node.buffer].shape
    terms = [
        f"{emit_value(program, index)} * {math.prod(shape[axis + 1 :])}"
        for axis, index in enumerate(node.indices)
    ]
    return f"{node.buffer}[{' + '.join(terms) or 0}]"


def emit_column_major(program):
    turned = {b.name: b.shape for b in program.params}

    def place(node):
        terms = [
            f"{emit_value(program, index)} * {math.prod(turned[node.buffer][:axis])}"
            for axis, index in enumerate(node.indices)
        ]
        return f"{node.buffer}[{' + '.join(terms) or 0}]"

    def value(e):
        if isinstance(e, ir.Binary):
            return f"({value(e.a)} {e.op} {value(e.b)})"
        return place(e) if isinstance(e, ir.Load) else emit_value(program, e)

    def walk(s):
        if isinstance(s, ir.For):
            return f"for (int {s.var} = 0; {s.var} < {s.extent}; {s.var}++) {{ {walk(s.body)} }}"
        if isinstance(s, ir.Seq):
            return " ".join(map(walk, s.stmts))
        return f"{place(s)} = {value(s.value)};"

    return walk(program.body)


def emit_no_place_for_a_scalar(program):
    return emit_in_another_style(program).replace("T[0]", "T[]")


def emit_only_the_first(program):
    body = program.body
    first = body.stmts[0] if isinstance(body, ir.Seq) else body
    return emit(program.replace(body=first))


def emit_python(program):
    return str(program)


def emit_by_the_library(program):
    return mt.codegen.generate(program, mt.Target("c", 1, 0)).source


def emit_a_list(program):
    return emit(program).splitlines()


RIGHT = {
    "offset": [offset, offset_by_strides, offset_by_numpy],
    "unflatten": [unflatten, unflatten_by_strides, unflatten_by_counting],
    "stored": [stored, stored_by_numpy, stored_by_ctypes, stored_by_masks],
    "emit": [emit, emit_in_another_style, emit_with_variables],
}
WRONG = {
    "offset": [
        (offset_column_major, "right is"),
        (offset_with_its_own_extent, "right is"),
        (offset_of_two_axes, "right is"),
        (offset_of_some_axes, "IndexError"),
    ],
    "unflatten": [
        (unflatten_backwards, "right is"),
        (unflatten_without_remainder, "right is"),
        (unflatten_by_extents, "right is"),
        (unflatten_a_number, "right is ("),
    ],
    "stored": [
        (stored_clamped, "right is"),
        (stored_always_signed, "False) gives"),
        (stored_of_8_bits, "right is"),
        (stored_off_by_one, "right is -"),
    ],
    "emit": [
        (emit_without_value_brackets, "right is"),
        (emit_column_major, "of transpose"),
        (emit_no_place_for_a_scalar, "of total (T [] float32): line"),
        (emit_only_the_first, "is not stored to"),
        (emit_python, "line 1: expected = or +="),
        (emit_by_the_library, "it calls mt.codegen.generate"),
        (emit_a_list, "a text is wanted"),
    ],
}
