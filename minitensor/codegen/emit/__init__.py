"""The emitter: from plain statements to the text of a target.

`emitter` writes statements and `expressions` their values, as far as the languages of the C family
agree; `c_emitter` and `vector_expressions` what only C has. `scalars`
and `vectors` have the small functions that a text defines before its own (`helpers` collects them),
`functions` those that are written in the IR's terms. `lines` breaks long lines. `c` has the dialect
of C, and puts a file together.
"""
