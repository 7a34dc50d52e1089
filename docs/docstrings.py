"""The docstrings of the house as Markdown: pictures, columns of names, and prose.

    split("i", [None, 8])               a line with a picture under it: a block of text
        for i in range(20):      =>     for i_0 in range(3):
    factors  the extents                a name, two blanks, a text: an entry of a list

A picture is the text of its loops: what draws it otherwise takes the place of `picture`.
"""

import inspect
import re

COLUMN = re.compile(r"(\S+(?: \S+)*?) {2,}(?=\S)(.*)")
"""An entry of a list: what it is about, and the text beside it."""


def markdown(docstring: str) -> str:
    """The docstring as Markdown."""
    return "\n\n".join(_parts(inspect.cleandoc(docstring).splitlines()))


def picture(lines: list[str]) -> str:
    """Loops before and after, or any text that is to stay as it is."""
    return "\n".join(["```text", *lines, "```"])


def prose(text: str) -> str:
    """Text in which nothing but names in backquotes means anything to Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if n % 2 else _escaped(p) for n, p in enumerate(parts))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"(\*|(?<!\w)_|_(?!\w)|\](?=[\[(]))", r"\\\1", text)


def _parts(lines: list[str]) -> list[str]:
    """The paragraphs, entries and pictures of lines that begin at column 0."""
    made: list[str] = []
    entries: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
            end += 1
        below = lines[at + 1 : end]
        while below and not below[-1]:
            below.pop()
        column = COLUMN.fullmatch(lines[at])
        if not lines[at]:
            end = at + 1
        elif lines[at].startswith(" "):  # an example: no line of prose stands above it
            end = _end_of_example(lines, at)
            made += _listed(entries)
            made.append(picture(inspect.cleandoc("\n".join(["", *lines[at:end]])).splitlines()))
        elif "   =>   " in lines[at] and not below:
            made += _listed(entries)
            made.append(picture([lines[at]]))
        elif column:
            entries.append(_entry(column[1], column[2], below))
        elif below and below[0]:
            made += _listed(entries)
            made.append(picture([lines[at], *below]))
        else:
            made += _listed(entries)
            end = _end_of_prose(lines, at)
            made.append(prose("\n".join(lines[at:end])))
        at = end
    return made + _listed(entries)


def _end_of_prose(lines: list[str], at: int) -> int:
    """The line after a paragraph: where it is empty, indented, or an entry or a picture begins."""
    end = at + 1
    while end < len(lines) and lines[end] and not lines[end].startswith(" "):
        is_call = end + 1 < len(lines) and lines[end + 1].startswith(" ")
        if COLUMN.fullmatch(lines[end]) or (is_call and not COLUMN.fullmatch(lines[end])):
            break
        end += 1
    return end


def _end_of_example(lines: list[str], at: int) -> int:
    end = at
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    while not lines[end - 1]:
        end -= 1
    return end


def _listed(entries: list[str]) -> list[str]:
    """The entries so far as one list; there are none afterwards."""
    made = ["\n".join(entries)] if entries else []
    entries.clear()
    return made


def _entry(name: str, text: str, below: list[str]) -> str:
    """One entry; what continues it may itself have entries and examples."""
    rest = inspect.cleandoc("\n".join(["", *below])).splitlines()
    nested = [bool(COLUMN.fullmatch(line)) or line.startswith(" ") for line in rest]
    first = nested.index(True) if True in nested else len(rest)
    head = prose(" ".join([text, *rest[:first]]).strip())
    name = f"**{name}**" if re.fullmatch("[A-Z][a-z ]+", name) else f"`{name}`"
    inner = "\n\n".join(_parts(rest[first:]))
    gap = "" if inner.startswith("- ") else "\n"  # a list may follow at once, a block may not
    body = gap + "".join(f"\n    {line}" if line else "\n" for line in inner.splitlines())
    body = body if inner else ""
    return f"- {name}: {head}{body}"
