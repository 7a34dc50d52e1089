"""Generated texts between processes: what is not as it was written is generated again."""

import os

import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.runtime import remembered

TARGET = Target("c", num_cores=1, vector_bits=0)


def program(factor):
    A = mt.placeholder((4,), name="A")
    return mt.lower([A, mt.compute((4,), lambda i: A[i] * factor, name="C")], name="scale")


@pytest.fixture
def recall(cache):
    """The text of a program, whether it was generated for it, and the file it is kept in."""

    def one(of, target=TARGET, header=""):
        made = []

        def make():
            made.append(generate(of, target, header))
            return made[0]

        before = set(cache.glob("*.text")) if cache.exists() else set()
        text = remembered(of, target, header, make)
        new = set(cache.glob("*.text")) - before
        return text, bool(made), (new.pop() if new else None)

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


def flip(path, content):
    path.write_bytes(content.replace(b"* 2.0f", b"* 3.0f"))


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


@pytest.mark.parametrize("damage", [cut, flip, flip_digest, empty, link, pipe])
def test_a_damaged_text_is_generated_again(recall, damage):
    first, _, path = recall(program(2.0))
    assert b"* 2.0f" in path.read_bytes()
    damage(path, path.read_bytes())
    again, made, _ = recall(program(2.0))
    assert made and again == first
    assert path.is_file() and not path.is_symlink()
    assert not recall(program(2.0))[1]


def test_a_text_put_in_place_of_another_is_not_taken(recall):
    first, _, path = recall(program(2.0))
    _, _, others = recall(program(3.0))
    os.replace(others, path)
    again, made, _ = recall(program(2.0))
    assert made and again == first
