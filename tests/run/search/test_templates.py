"""Searches of templates with native kernels."""

import numpy as np
import pytest

import minitensor as mt
from tests.run.search import template
from tutorials.demo import dense

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    for variable in ("CFLAGS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.slow
def test_the_best_is_right():
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s, "float32") for s in ((64, 64), (64, 64), (64,))]
    program = dense.define(64, 64, 64)
    result = mt.tune(program, trials=3, space=template.template, strategy="random", inputs=inputs)
    a, b, bias = inputs
    expected = np.maximum(a @ b + bias, 0)
    np.testing.assert_allclose(result.kernel()(*inputs), expected, rtol=1e-4, atol=1e-4)
    assert len([t for t in result.tried if t.trace.steps]) == 3


@pytest.mark.slow
def test_a_compiler_that_fails_for_some_candidates(monkeypatch, tmp_path):
    """A CC that refuses kernels with a loop of 4: these are failures, not the end."""
    words = mt.build(dense.define(2, 2, 2)).command
    script = tmp_path / "picky-cc"
    script.write_text(
        "#!/bin/sh\nif [ -f kernel.c ] && grep -q 'i_1 < 4;' kernel.c; then\n"
        f'  echo "kernel.c:1: error: a loop of 4" >&2; exit 1\nfi\nexec {words[0]} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    program = mt.lower(mt.workloads.row_sum(m=16, n=16))

    def space(s):
        (block,) = s.get_blocks()
        i = s.get_loops(block)[0]
        s.split(i, [None, s.sample_categorical([2, 4, 8])])

    result = mt.tune(program, trials=9, space=space, strategy="random")
    assert len([t for t in result.tried if t.trace.steps]) == 3  # the space holds no more
    assert result.failures == {"not built": 1}
    (failed,) = [t for t in result.tried if t.status == "not built"]
    assert "a loop of 4" in failed.error
