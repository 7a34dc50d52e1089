"""Lessons whose cells run in a tab of a browser: Python itself is part of the page (Pyodide).

    assets   files of others that a page needs, fetched once and checked
    pages    lessons as Markdown and HTML, and the folder that a server hands out
    serve    that folder on a port of this machine
    slides   the same cells for a projector, as HTML and PDF
    tab      what runs in the tab: cells and judges

`worker.mjs` starts Python in a thread of its own, `cells.mjs` makes cells of a page's code, and
`offline.js` keeps what was loaded for the next time.
"""
