"""The words of a command line, the exit status, and what no user should see: a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor
from minitensor.cli import main, show
from minitensor.cli.errors import CommandError, UsageError
from minitensor.errors import ArgumentError

ROOT = Path(minitensor.__file__).parents[1]
COMMANDS = ("doctor", "demo", "show", "compile", "tune", "bench", "log")


def test_version(run):
    done = run("--version")
    assert (done.status, done.out) == (0, f"minitensor {minitensor.__version__}\n")


def test_help_lists_every_command(run):
    done = run("--help")
    assert done.status == 0
    for command in COMMANDS:
        assert f"\n    {command} " in done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_examples_as_they_were_written(run, command):
    done = run(command, "--help")
    assert done.status == 0
    examples = done.out.partition("examples:\n")[2].splitlines()
    assert any(line.startswith(f"  minitensor {command}") for line in examples)


@pytest.mark.parametrize(
    "words", [[], ["dance"], ["show", "--size"], ["compile"], ["show", "matmul", "--target", "x"]]
)
def test_bad_usage_is_status_2(run, words):
    done = run(*words)
    assert done.status == 2
    assert done.out == ""
    assert "error:" in done.err


@pytest.mark.parametrize(
    ("problem", "status", "said"),
    [
        (UsageError("no such thing"), 2, "error: no such thing (see minitensor show --help)"),
        (CommandError("it broke"), 1, "error: it broke"),
        (ArgumentError("expected a cat, but got x=3 (int)"), 1, "expected a cat"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_failures_are_one_message_on_stderr(run, monkeypatch, problem, status, said):
    def fail(arguments, console):
        raise problem

    monkeypatch.setattr(show, "run", fail)
    done = run("show", "matmul")
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, "-m", "minitensor", "show", "--list", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    process.stdout.close()
    with process:
        assert process.stderr.read() == b""
    assert process.returncode == 0


def in_a_process(python_words, **changes):
    """The command line in a process of its own, with other variables."""
    environment = {**os.environ, **changes}
    return subprocess.run(
        [sys.executable, "-m", "minitensor", *python_words],
        env=environment,
        capture_output=True,
        check=False,
    )


@pytest.mark.slow
def test_characters_that_the_stream_cannot_show():
    size = ["--size", "m=64,n=64,k=64", "--time"]
    done = in_a_process(["compile", "matmul", *size], PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"?s" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "minitensor", "show", "--list"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"minitensor: error: cannot write the output: No space left on device\n"


def test_a_closed_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["show", "--list"]) == 0


@pytest.mark.slow
def test_the_reason_a_compiler_fails_is_shown():
    done = in_a_process(["compile", "matmul", "--small"], CFLAGS="-bogus")
    assert done.returncode == 1
    assert b"-bogus" in done.stderr
    assert b"-bogus" in in_a_process(["doctor"], CFLAGS="-bogus").stdout
