"""A lesson, which is a Python file, as a page: its comments are the text, between blocks of code.

A line `# ---- 2. What it means ----` is a heading, and the comment under it the text. Comments
inside the code stay there.
"""

import ast
import re

HEADING = re.compile(r"# -{3,} (.+?) -+")


def page_of(text: str) -> str:
    """The lesson as Markdown."""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    title, _, introduction = docstring.partition("\n")
    after = text.split('"""', 2)[2] if docstring else text
    parts = [f"# {title.rstrip('.')}", introduction.strip()]
    code: list[str] = []
    lines = after.splitlines()
    at = 0
    while at < len(lines):
        heading = HEADING.fullmatch(lines[at])
        starts = lines[at].startswith("# ") and (at == 0 or not lines[at - 1])
        if heading:
            parts += [_fenced(code), f"## {heading[1]}"]
            at += 1
        if heading or starts:
            end = at
            while end < len(lines) and re.match(r"# (?!-{3,})|#$", lines[end]):
                end += 1
            parts += [_fenced(code), "\n".join(line[2:] for line in lines[at:end])]
            at = end
        else:
            code.append(lines[at])
            at += 1
    return "\n\n".join(part for part in [*parts, _fenced(code)] if part) + "\n"


def _fenced(code: list[str]) -> str:
    """The code so far as a block; there is none afterwards."""
    text = "\n".join(code).strip("\n")
    code.clear()
    return f"```python\n{text}\n```" if text else ""
