"""Programs to kernels: generated and compiled once; a damaged entry is generated again."""

import os

import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.runtime import build, find_toolchain, load_program

TARGET = Target("c", num_cores=1, vector_bits=0)


def program(factor):
    A = mt.placeholder((4,), name="A")
    return mt.lower([A, mt.compute((4,), lambda i: A[i] * factor, name="C")], name="scale")


@pytest.fixture
def recall(cache, monkeypatch):
    """The source of a program's kernel, whether it was generated for it, and the entry."""
    made = []
    monkeypatch.setattr(build, "generate", lambda *given: made.append(1) or generate(*given))

    def one(of, target=TARGET, header=""):
        made.clear()
        before = set(cache.glob("kernel-*.json"))
        kernel = load_program(of, target, header, find_toolchain())
        new = set(cache.glob("kernel-*.json")) - before
        return kernel.source, bool(made), (new.pop() if new else None)

    return one


def test_a_text_is_generated_once(recall):
    first, made, _ = recall(program(2.0))
    again, made_again, _ = recall(program(2.0))
    assert made and not made_again
    assert again == first


@pytest.mark.parametrize(
    "other",
    [
        (program(3.0),),
        (program(2.0), Target("c", num_cores=2, vector_bits=0)),
        (program(2.0), TARGET, "a header"),
    ],
)
def test_another_program_target_or_header_is_another_text(recall, other):
    recall(program(2.0))
    _, made, _ = recall(*other)
    assert made


def cut(path, content):
    path.write_bytes(content[: len(content) // 2])


def change_source(path, content):
    source = path.with_suffix(".c")
    source.write_text(source.read_text().replace("* 2.0f", "* 3.0f"))


def change_facts(path, content):
    path.write_bytes(content.replace(b'"scale"', b'"other"'))


def flip_digest(path, content):
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def empty(path, content):
    path.write_bytes(b"")


def link(path, content):
    elsewhere = path.with_suffix(".moved")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def pipe(path, content):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [cut, change_source, change_facts, flip_digest, empty, link, pipe]
)
def test_a_damaged_text_is_generated_again(recall, damage):
    first, _, path = recall(program(2.0))
    assert "* 2.0f" in first and b'"scale"' in path.read_bytes()
    damage(path, path.read_bytes())
    again, made, _ = recall(program(2.0))
    assert made and again == first
    assert path.is_file() and not path.is_symlink()
    assert not recall(program(2.0))[1]


def test_a_text_put_in_place_of_another_is_not_taken(recall):
    first, _, path = recall(program(2.0))
    _, _, others = recall(program(3.0))
    for suffix in (".json", ".c", ".so"):
        os.replace(others.with_suffix(suffix), path.with_suffix(suffix))
    again, made, _ = recall(program(2.0))
    assert made and again == first
