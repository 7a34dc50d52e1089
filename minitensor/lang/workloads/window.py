"""Windows that slide over images: layouts, extents, and the stages that read through them.

Not here: asymmetric padding and output sizes that are rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minitensor.errors import ArgumentError, unexpected
from minitensor.ir import DType
from minitensor.lang.scalar import if_then_else, logical_and
from minitensor.lang.tensor import ReduceAxis, Tensor, compute, placeholder, reduce_axis
from minitensor.lang.workloads.arguments import PerAxis, check_sizes, labelled, per_axis

CHANNELS_FIRST: Final = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
CHANNELS_LAST: Final = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The position of the channels. Spatial axes come in the order depth, height, width.

    rank           the number of spatial axes
    channels_last  NHWC with weights HWIO, rather than NCHW with weights OIHW
    """

    rank: int
    channels_last: bool

    @staticmethod
    def of(name: object, rank: int) -> Layout:
        """The layout called `name`, such as "NCHW"."""
        names = (CHANNELS_FIRST[rank], CHANNELS_LAST[rank])
        if name not in names:
            raise unexpected(f'"{names[0]}" or "{names[1]}"', "layout", name)
        return Layout(rank, name == names[1])

    def image(self, n: Any, c: Any, spatial: Sequence[Any]) -> tuple[Any, ...]:
        """A shape, index or list of labels of an image."""
        return (n, *spatial, c) if self.channels_last else (n, c, *spatial)

    def parts(self, image: Sequence[Any]) -> tuple[Any, Any, tuple[Any, ...]]:
        """The batch, the channel and the spatial part of what `image` makes."""
        n, *rest = image
        if self.channels_last:
            return n, rest[-1], tuple(rest[:-1])
        return n, rest[0], tuple(rest[1:])

    def weight(self, out: Any, into: Any, spatial: Sequence[Any]) -> tuple[Any, ...]:
        """A shape or index of the weights: output channel, input channel, offsets."""
        return (*spatial, into, out) if self.channels_last else (out, into, *spatial)

    def reduced(self, channel: ReduceAxis, spatial: Sequence[ReduceAxis]) -> list[ReduceAxis]:
        """The reduction axes in the order in which the weights are stored."""
        return [*spatial, channel] if self.channels_last else [channel, *spatial]

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the spatial loops."""
        return ("z", "y", "x")[-self.rank :]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one operator over images; each tuple has one entry for each spatial axis."""

    layout: Layout
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @staticmethod
    def over(
        layout: object,
        sizes: dict[str, int],
        kernel: PerAxis,
        stride: PerAxis = 1,
        padding: PerAxis = 0,
        dilation: PerAxis = 1,
    ) -> Windows:
        """The windows over an image of the given sizes (by name), everything checked."""
        check_sizes(**sizes)
        rank = len(sizes)
        windows = Windows(
            Layout.of(layout, rank),
            tuple(sizes.values()),
            per_axis("kernel", kernel, rank, least=1),
            per_axis("stride", stride, rank, least=1),
            per_axis("padding", padding, rank, least=0),
            per_axis("dilation", dilation, rank, least=1),
        )
        for axis, name in enumerate(sizes):
            windows._check_output(axis, name)
        return windows

    def _check_output(self, axis: int, name: str) -> None:
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        padded = self.sizes[axis] + 2 * self.padding[axis]
        if span > padded:
            raise ArgumentError(
                f"expected an output of at least 1 along {name}, but the window spans {span} "
                f"(kernel {self.kernel[axis]}, dilation {self.dilation[axis]}) and the padded "
                f"input has {padded} ({name}={self.sizes[axis]}, padding {self.padding[axis]}): "
                f"make {name} or padding larger, or kernel or dilation smaller"
            )

    @property
    def outputs(self) -> tuple[int, ...]:
        """The extents of the output."""
        return tuple(
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                self.sizes, self.kernel, self.stride, self.padding, self.dilation
            )
        )

    def taps(self) -> tuple[ReduceAxis, ...]:
        """One reduction axis for each axis of the window: ry, rx."""
        return tuple(reduce_axis(k, f"r{label}") for k, label in zip(self.kernel, self.layout.axes))

    def positions(self, at: Sequence[Any], taps: Sequence[ReduceAxis]) -> tuple[Any, ...]:
        """The indices in the padded image of the window of the output at `at`: y*stride + ry."""
        return tuple(
            i * stride + r * dilation
            for i, r, stride, dilation in zip(at, taps, self.stride, self.dilation)
        )

    def data(self, n: int, c: int, dtype: DType) -> Tensor:
        """The images as an input."""
        return placeholder(self.layout.image(n, c, self.sizes), dtype, name="data")

    def padded(self, data: Tensor, value: Any = 0) -> Tensor:
        """The images with their padding, zeros unless another value is given."""
        around = self.layout.image(0, 0, self.padding)
        return pad(data, around, around, self.layout.image("n", "c", self.layout.axes), value)

    def read(
        self, source: Tensor, n: Any, c: Any, at: Sequence[Any], taps: Sequence[ReduceAxis]
    ) -> Any:
        """The elements of a padded image at the taps of the output at `at`."""
        return source[self.layout.image(n, c, self.positions(at, taps))]


def compute_image(
    layout: Layout,
    shape: tuple[int, int, Sequence[int]],
    element: Callable[[Any, Any, tuple[Any, ...]], Any],
    name: str,
    channel: str = "f",
) -> Tensor:
    """A stage that computes an image of shape (n, c, spatial) as element(n, c, (y, x))."""

    def at(*indices: Any) -> Any:
        return element(*layout.parts(indices))

    labels = layout.image("n", channel, layout.axes)
    image: Tensor = compute(layout.image(*shape), labelled(labels, at), name=name)
    return image


def pad(
    data: Tensor, before: Sequence[int], after: Sequence[int], labels: Sequence[str], value: Any = 0
) -> Tensor:
    """A stage "pad" that surrounds `data` with `value`; `data` itself where there is no padding.

    before, after  how many elements to add at the two ends of each axis
    labels         the names of the axes; the loops are pad_n, pad_y, …, which leaves the plain
                   names to the stage that matters
    """
    if not any((*before, *after)):
        return data

    def element(*indices: Any) -> Any:
        inside = []
        for i, extent, low, high in zip(indices, data.shape, before, after):
            inside += [i >= low] if low else []
            inside += [i < low + extent] if high else []
        source = data[tuple(i - low if low else i for i, low in zip(indices, before))]
        condition = inside[0] if len(inside) == 1 else logical_and(*inside)
        return if_then_else(condition, source, value)

    shape = [low + extent + high for low, extent, high in zip(before, data.shape, after)]
    padded: Tensor = compute(
        tuple(shape), labelled([f"pad_{label}" for label in labels], element), name="pad"
    )
    return padded
