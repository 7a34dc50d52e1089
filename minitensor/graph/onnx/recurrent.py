"""LSTM, GRU and RNN: their steps one after another, for graphs have no loops.

The part of the gates that the inputs decide is one product for all steps; each step multiplies the
state before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from minitensor.graph.onnx.context import Context, NotSupportedError
from minitensor.lang import Tensor, ops

MOST_STEPS: Final = 512
"""Steps of a sequence; each is some kernels of its own."""
_ACTIVATIONS: Final = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",),
}  # fmt: skip
_DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

State: TypeAlias = "tuple[Tensor, ...]"
"""The state between steps: h, and c of an LSTM; each (n, hidden)."""


def recurrent(
    c: Context,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    cell: Any = None,
    peepholes: Any = None,
) -> list[Tensor]:
    """All states, and the last of each direction, as ONNX's operators give them."""
    hidden, reverse = _checked(c, lengths, peepholes)
    x = c.tensor(x)
    steps, batch, _ = x.shape
    if steps > MOST_STEPS:
        raise NotSupportedError(f"{c.kind} over {steps} steps, more than {MOST_STEPS}")
    weights, kept = c.known(w, "weights"), c.known(r, "weights")
    bias = np.zeros((len(reverse), 2 * kept.shape[1]), weights.dtype)
    bias = bias if b is None else c.known(b, "bias")
    given = [h, cell] if c.kind == "LSTM" else [h]
    zero = np.zeros((len(reverse), batch, hidden), weights.dtype)
    starts = [c.tensor(zero if one is None else one, "state") for one in given]
    rows: list[Tensor] = []
    lasts: list[State] = []
    for number, backwards in enumerate(reverse):
        state = tuple(_row(one, number) for one in starts)
        gates = _of_inputs(c, x, weights[number], bias[number], kept.shape[1])
        step = _STEPS[c.kind](c, kept[number], bias[number][kept.shape[1] :])
        states = {}
        for t in sorted(range(steps), reverse=backwards):
            state = step(_row(gates, t), state)
            states[t] = ops.reshape(state[0], shape=(1, 1, batch, hidden))
        rows.append(ops.concat([states[t] for t in range(steps)], axis=0))
        lasts.append(state)
    ends = zip(*([ops.reshape(one, shape=(1, batch, hidden)) for one in last] for last in lasts))
    return [_joined(rows, 1), *(_joined(list(end), 0) for end in ends)]


def _checked(c: Context, lengths: Any, peepholes: Any) -> tuple[int, tuple[bool, ...]]:
    """The size of a state, and whether each direction is backwards. Raises NotSupportedError."""
    hidden, direction = c.integer("hidden_size"), c.attribute("direction", "forward")
    if direction not in _DIRECTIONS:
        raise NotSupportedError(f"{c.kind} with direction={direction!r}")
    reverse = _DIRECTIONS[direction]
    words = [name.decode() for name in c.attribute("activations", ())]
    if words and words != [*_ACTIVATIONS[c.kind]] * len(reverse):
        raise NotSupportedError(f"{c.kind} with the activations {', '.join(words)}")
    c.only("layout", 0)
    c.only("input_forget", 0)
    for what, value in (("lengths of its sequences", lengths), ("peepholes", peepholes)):
        if value is not None:
            raise NotSupportedError(f"{c.kind} with {what}")
    return hidden, reverse


def _of_inputs(c: Context, x: Tensor, w: np.ndarray, bias: np.ndarray, size: int) -> Tensor:
    """The part of all gates that the inputs decide, (steps, n, size)."""
    steps, batch, width = x.shape
    flat = ops.reshape(x, shape=(steps * batch, width))
    found = ops.matmul(flat, c.tensor(np.ascontiguousarray(w.T), "weights"))
    found = ops.add(found, c.tensor(bias[:size], "bias"))
    return ops.reshape(found, shape=(steps, batch, size))


def _row(x: Tensor, number: int) -> Tensor:
    """One of the first axis."""
    one = ops.slice(x, starts=(number,), stops=(number + 1,), axes=(0,))
    return ops.reshape(one, shape=x.shape[1:])


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else ops.concat(parts, axis=axis)


def _parts(x: Tensor, count: int) -> Iterator[Tensor]:
    """The gates, side by side in the last axis."""
    size = x.shape[-1] // count
    for n in range(count):
        yield ops.slice(x, starts=(n * size,), stops=(n * size + size,), axes=(x.ndim - 1,))


Step: TypeAlias = "Callable[[Tensor, State], State]"
"""From the part of the gates that the inputs decide, and the state before."""


def _lstm(c: Context, r: np.ndarray, bias: np.ndarray) -> Step:
    product = _product(c, r, bias)

    def step(inputs: Tensor, state: State) -> State:
        h, cell = state
        i, o, f, new = _parts(ops.add(inputs, product(h)), 4)
        cell = ops.add(ops.mul(ops.sigmoid(f), cell), ops.mul(ops.sigmoid(i), ops.tanh(new)))
        return ops.mul(ops.sigmoid(o), ops.tanh(cell)), cell

    return step


def _gru(c: Context, r: np.ndarray, bias: np.ndarray) -> Step:
    late, ends = c.integer("linear_before_reset", 0), 2 * r.shape[1]
    gates = _product(c, r[:ends], bias[:ends])
    product = _product(c, r[ends:], bias[ends:])

    def step(inputs: Tensor, state: State) -> State:
        (h,) = state
        of_gates = ops.slice(inputs, starts=(0,), stops=(ends,), axes=(1,))
        of_new = ops.slice(inputs, starts=(ends,), stops=(inputs.shape[1],), axes=(1,))
        z, reset = _parts(ops.sigmoid(ops.add(of_gates, gates(h))), 2)
        kept = ops.mul(reset, product(h)) if late else product(ops.mul(reset, h))
        new = ops.tanh(ops.add(of_new, kept))
        return (ops.add(new, ops.mul(z, ops.sub(h, new))),)

    return step


def _rnn(c: Context, r: np.ndarray, bias: np.ndarray) -> Step:
    product = _product(c, r, bias)
    return lambda inputs, state: (ops.tanh(ops.add(inputs, product(state[0]))),)


def _product(c: Context, r: np.ndarray, bias: np.ndarray) -> Callable[[Tensor], Tensor]:
    """A function that multiplies a state by its weights, the same constants in all steps, and adds
    the bias.
    """
    weights, shift = c.tensor(np.ascontiguousarray(r.T), "kept"), c.tensor(bias, "bias")
    return lambda h: ops.add(ops.matmul(h, weights), shift)


_STEPS: Final = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
