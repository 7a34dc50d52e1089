"""Programs to draw, and pictures read as XML."""

from xml.etree import ElementTree

import minitensor as mt

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<script>alert(1)</script>", '" onload="x', "x" * 5000, "a\x00b\ud800\n]]>&amp;"]


def product(m=16, n=12, k=8, names=("A", "B", "C")):
    A = mt.placeholder((m, k), "float32", name=names[0])
    B = mt.placeholder((k, n), "float32", name=names[1])
    r = mt.reduce_axis((0, k), name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name=names[2])
    return mt.lower([A, B, C], name="product")


def scheduled():
    s = mt.Schedule(product())
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 4])
    s.reorder(i_0, k, i_1, j)
    s.parallel(i_0)
    s.unroll(i_1)
    s.vectorize(j)
    return s


def operator(name):
    found = mt.workloads.WORKLOADS[name]
    return mt.lower(found.function(**found.small), name=name)


def parsed(picture):
    """The picture as a tree of elements, its text alternative checked."""
    root = ElementTree.fromstring(picture.svg())
    assert root.tag == SVG + "svg" and root.get("role") == "img"
    ids = {e.get("id"): e for e in root.iter() if e.get("id")}
    title, text = (ids[name] for name in root.get("aria-labelledby").split())
    assert title.text == picture.title and text.text
    for e in root.iter():
        assert e.tag != SVG + "script"
        assert not any(key.startswith("on") or "href" in key for key in e.attrib)
    return root


def texts(root):
    return [e.text for e in root.iter(SVG + "text")]
