"""Pictures of programs and schedules: SVG and HTML files that load nothing and need nothing.

In reading order: `svg` (a picture and its elements), `chart` (axes, points and lines), `tree`
(nodes from left to right), `page` (one HTML file), then the pictures: `nest` (loops as nested
boxes), `walk` and `order` (elements in the order of their visits), `footprint` (bytes under each
loop), `lanes` (a warp of a GPU against sectors and banks), `conflict` (two iterations that touch
one element), `program` (all of these of a program). Modules are imported when one of their names is
first used. Not here: the pictures of a search, which are in `search/pictures`.
"""

import importlib
from collections.abc import Callable as _Callable
from collections.abc import Mapping as _Mapping
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from minitensor.pictures.chart import Axis, Chart
    from minitensor.pictures.conflict import conflict_picture
    from minitensor.pictures.footprint import footprint_picture, footprints
    from minitensor.pictures.lanes import lanes_picture
    from minitensor.pictures.nest import nest_picture
    from minitensor.pictures.order import order_pictures
    from minitensor.pictures.page import Gallery, folder_of, page_of, write
    from minitensor.pictures.program import program_pictures, refusal_pictures
    from minitensor.pictures.svg import Picture, escaped, fitted, label, tag
    from minitensor.pictures.tree import Branch, tree_picture

_HOMES = {
    "svg": ("Picture", "escaped", "fitted", "label", "tag"),
    "chart": ("Axis", "Chart"),
    "tree": ("Branch", "tree_picture"),
    "page": ("Gallery", "folder_of", "page_of", "write"),
    "nest": ("nest_picture",),
    "order": ("order_pictures",),
    "footprint": ("footprint_picture", "footprints"),
    "conflict": ("conflict_picture",),
    "lanes": ("lanes_picture",),
    "program": ("program_pictures", "refusal_pictures"),
}

__all__ = [
    "Axis", "Branch", "Chart", "Gallery", "Picture", "caches_by", "conflict_picture", "escaped",
    "fitted", "folder_of", "footprint_picture", "footprints", "known_caches", "label", "lanes_by",
    "lanes_of", "lanes_picture", "nest_picture", "order_pictures", "page_of", "program_pictures",
    "refusal_pictures", "tag", "tree_picture", "write",
]  # fmt: skip

_CACHES: list[_Callable[[], _Mapping[str, int]]] = []


def caches_by(find: _Callable[[], _Mapping[str, int]]) -> None:
    """Have the sizes of this machine's caches drawn, by level in bytes, as `find` gives them."""
    _CACHES[:] = [find]


def known_caches() -> _Mapping[str, int]:
    """The sizes of this machine's caches in bytes, by level; none if nothing finds them."""
    return _CACHES[0]() if _CACHES else {}


_LANES: list[_Callable[[_Any], list[_Any]]] = []


def lanes_by(draw: _Callable[[_Any], list[_Any]]) -> None:
    """Have the accesses of a program for a GPU drawn by `draw`, a function of the program."""
    _LANES[:] = [draw]


def lanes_of(program: _Any) -> list[_Any]:
    """The pictures of the accesses of a program for a GPU; none if nothing draws them."""
    return _LANES[0](program) if _LANES else []


def __getattr__(name: str) -> _Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
