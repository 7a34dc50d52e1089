"""The emitter: from plain statements to the text of a target.

`emitter` writes statements and `expressions` their values, in the terms of a `dialect`; `helpers`
has the types and small functions that a text defines before its own, `functions` those that are
written in the IR's terms. `c` is the dialect of C, and puts a file together.
"""
