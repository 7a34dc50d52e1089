"""docs/environment.md, row by row: what is said where the environment is wrong, and what is left.

Each test has a process with a few variables and nothing else of ours, a copy of one that has
imported minitensor; where only what is said is looked at, one process is asked for all values.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from minitensor.runtime import process, toolchain
from tests.parts import some
from tests.run.runtime.conftest import ROOT
from tests.run.runtime.copied import Copies

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "environment.md"
ASSEMBLY = ("-m", "minitensor", "compile", "matmul", "--small", "--assembly")
"""Builds and loads a kernel."""
CALL = """
import numpy as np, minitensor as mt
A = mt.placeholder((64,), name="A")
s = mt.Schedule(mt.lower([A, mt.compute((64,), lambda i: A[i] * 2, name="C")]))
outer, _ = s.split("i", [None, 8])
s.parallel(outer)
kernel = mt.build(s)
print(kernel(np.ones(64, "f")).sum(), kernel.target.num_cores)
"""
ASK = """
import contextlib, io, json, os, sys
from minitensor.cli import main

def answer(variables):
    before = dict(os.environ)
    os.environ.update(variables)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(sys.argv[2:])
    os.environ.clear()
    os.environ.update(before)
    return status, out.getvalue(), err.getvalue()

print(json.dumps([answer(variables) for variables in json.loads(sys.argv[1])]))
"""
"""The status and the streams of a command, for each of some variables."""
BYTECODE = ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
"""Where a process finds compiled modules, and whether it may write them: as in any test."""
CC = shutil.which("cc") or shutil.which("gcc") or "cc"


def has_failed(answer, said):
    """The command ended with status 1 and one line on stderr that `said` matches."""
    status, out, err = answer
    assert (status, out) == (1, ""), err
    assert re.search(said, err), err
    assert "Traceback" not in err
    assert len(err.splitlines()[0]) < 1500 and err.splitlines()[0].isprintable()


class Place:
    """A folder with a home, and processes that know of nothing else."""

    def __init__(self, folder, copies):
        self.folder, self.home, self.cache = folder, folder / "home", folder / "cache"
        self.copies = copies
        self.home.mkdir()

    def environment(self, variables):
        """The variables of a process; None takes one away."""
        usual = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "MINITENSOR_CACHE_DIR": str(self.cache),
            "PYTHONPATH": str(ROOT),
            **{name: os.environ[name] for name in BYTECODE if name in os.environ},
        }
        return {k: v for k, v in {**usual, **variables}.items() if v is not None}

    def start(self, *words, before=(), **variables):
        """A process of Python; None of what it prints may be a traceback.

        before  words of a command that starts it; without any, it is a copy of one
        """
        environment = self.environment(variables)
        if not before:
            done = self.copies.run(words, environment, self.folder)
        else:
            done = subprocess.run(
                [*before, sys.executable, *words],
                env=environment,
                cwd=self.folder,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=300,
            )
        assert "Traceback" not in done.stderr
        return done

    def fails(self, said, *words, before=(), **variables):
        """The command ends with status 1 and one line on stderr that `said` matches."""
        done = self.start(*(words or ASSEMBLY), before=before, **variables)
        has_failed((done.returncode, done.stdout, done.stderr), said)
        assert not list(self.folder.glob("**/build-*"))

    def answers(self, questions):
        """What one process answers to ASSEMBLY under each of some variables."""
        done = self.start("-c", ASK, json.dumps(questions), *ASSEMBLY[2:])
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    def works(self, warning="", cores=None, **variables):
        """A kernel is built and gives what it should; on stderr only what `warning` matches."""
        done = self.start("-c", CALL, **variables)
        assert done.returncode == 0, done.stderr
        result, found = done.stdout.split()
        assert float(result) == 128
        assert cores is None or int(found) == cores
        if warning:
            assert re.search(warning, done.stderr), done.stderr
        else:
            assert done.stderr == ""
        assert not list(self.folder.glob("**/build-*"))

    def script(self, text, name="fake"):
        """A program of shell text; {cc} is the real compiler."""
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text.replace("{cc}", shlex.quote(CC)) + "\n")
        path.chmod(0o755)
        return str(path)

    def holds(self, *names):
        """Whether the folder has these things, and home and cache perhaps."""
        return {p.name for p in self.folder.iterdir()} - {"home", "cache"} == set(names)


@pytest.fixture(scope="module")
def copies():
    with Copies() as copies:
        yield copies


@pytest.fixture
def place(tmp_path, copies):
    return Place(tmp_path, copies)


def rows():
    """The cells of the tables."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r" \| ", line.strip("| "))] for line in lines]


def test_the_page_names_every_variable():
    assert all(len(cells) == 3 for cells in rows())
    named = [name for cells in rows() for name in re.findall(r"`(\w+)`", cells[0])]
    assert {*toolchain._READ_BY_COMPILERS, *process._WITHHELD} <= set(named)
    ours = set()
    for path in (ROOT / "minitensor").rglob("*.py"):
        ours |= set(re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", path.read_text()))
    assert ours - {"PYTHONPATH"} <= set(named)
    assert {"MINITENSOR_DEBUG", "OMP_NUM_THREADS", "NO_COLOR"} <= ours


# ---- CC


WRONG = {
    "CC": [
        ("gcc; touch x", r"CC='gcc; touch x': no program 'gcc;' is found; install one"),
        ("$(touch x)", r"no program '\$\(touch' is found"),
        ("'gcc", r"words as a shell reads them \(No closing quotation\), but got CC="),
        ("no-such-program", r"no program 'no-such-program' is found"),
        ("/tmp", r"'/tmp' is a folder, not a program"),
        (str(PAGE), r"environment\.md' is not executable, not a program"),
        ("gcc -fplugin=./x.so", r"expected CC without -fplugin=\./x\.so \(it loads or runs"),
        ("gcc @x", r"expected CC without @x \(it passes options that cannot be checked\)"),
        ("gcc -wrapper touch,x", r"expected CC without -wrapper \("),
        ("sh -c 'touch x'", r"expected CC without -c \("),
        ("gcc -ffast-math", r"expected CC without -ffast-math \(.*whole Python process"),
        ("\udcff", r"no program '.*' is found"),
    ],
    "CFLAGS": [
        ("-fplugin=./x.so", r"expected CFLAGS without -fplugin=\./x\.so \(it loads or runs other"),
        ("-wrapper touch,x", r"expected CFLAGS without -wrapper \(it loads or runs other"),
        ("@x", r"expected CFLAGS without @x \(it passes options that cannot be checked\)"),
        ("-o x", r"expected CFLAGS without -o \(it changes what is compiled"),
        ("-O3 -ffast-math", r"expected CFLAGS without -ffast-math \(loading such code makes"),
        ("; touch x", r"expected CFLAGS without ; \(it is no flag"),
        ("$(touch x)", r"expected CFLAGS without \$\(touch \(it is no flag"),
        ("-DX='", r"No closing quotation"),
        ("-fsanitize=address", r"it ends the process; minitensor\.sanitize does that"),
        ("-fno-such-flag", r"cannot make a shared library .*no-such-flag.*are CC and CFLAGS right"),
        ("-DX=\udcff -fno-such-flag", r"cannot make a shared library"),
    ],
}
"""Values that are refused, with what is said."""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory, copies):
    """What is said of each, by one process."""
    place = Place(tmp_path_factory.mktemp("wrong"), copies)
    pairs = [(name, value) for name, rows in WRONG.items() for value, _ in rows]
    found = dict(zip(pairs, place.answers([{name: value} for name, value in pairs])))
    assert place.holds()
    assert not list(place.folder.glob("**/build-*"))
    return found


@pytest.mark.parametrize(
    "name, value, said", [(n, *row) for n, rows in WRONG.items() for row in rows]
)
def test_compilers_and_flags_that_are_wrong(refusals, name, value, said):
    has_failed(refusals[name, value], said)


@pytest.mark.parametrize(
    "text, said",
    [
        ("exit 0", r"fake is neither gcc nor clang \(\)"),
        ("exit 7", r"fake cannot make a shared library from a small C file: no message"),
        ("kill -9 $$", r"fake cannot make a shared library"),
        ("head -c 100000 /dev/urandom", r"fake is neither gcc nor clang"),
        ("head -c 100000 /dev/urandom >&2; exit 1", r"fake cannot make a shared library"),
        (
            'case "$*" in *-dM*) exec {cc} "$@" ;; esac\n'
            'for word; do [ "$before" = -o ] && echo hello > "$word"; before=$word; done',
            r"cannot load \w+ from .*\.so.*(file too short|invalid ELF header)",
        ),
        ('case "$*" in *kernel.c*) exit 0 ;; esac\nexec {cc} "$@"', r"with status 0: no message"),
    ],
)
def test_programs_that_are_no_compilers(place, text, said):
    place.fails(said, CC=shlex.quote(place.script(text)))
    assert place.holds("fake")
    assert not list(place.cache.glob("*.so"))


def test_a_compiler_that_hangs_is_stopped_with_all_it_started(place):
    script = place.script('sleep 1000 & echo $! > "$0.child"; wait')
    sooner = (
        "import sys\nfrom minitensor.cli import main\nfrom minitensor.runtime import toolchain\n"
        "toolchain._PROBE_SECONDS = 1.0\n"
        "sys.exit(main(['compile', 'matmul', '--small', '--assembly']))\n"
    )
    place.fails(r"fake did not end within 1 s and was stopped", "-c", sooner, CC=script)
    child = (place.folder / "fake.child").read_text().strip()
    found = subprocess.run(["ps", "-o", "stat=", "-p", child], capture_output=True, check=False)
    assert found.stdout.strip()[:1] in (b"", b"Z")


def test_the_limit_of_the_page_is_the_one_in_use():
    assert f"did not answer in {toolchain._PROBE_SECONDS:g} s" in PAGE.read_text()


def test_cc_with_spaces_and_letters(place):
    folder = place.folder / "my tools ü"
    folder.mkdir()
    script = place.script('exec {cc} "$@"', "my tools ü/c c")
    place.works(CC=shlex.quote(script))
    place.fails(r"no program '.*/my' is found", CC=script)


def test_cc_that_is_a_relative_path(place):
    place.script('exec {cc} "$@"')
    place.works(CC="./fake")
    place.fails(r"no program 'home/fake' is found", CC="home/fake")


def test_an_empty_cc_is_none(place):
    place.works(CC="")


def test_no_compiler_on_path(place):
    place.fails(r"no C compiler is found on PATH \(tried cc, gcc, clang\); install one", PATH="")
    done = place.start(*ASSEMBLY[:-1], "--target", "interpreter", PATH="")
    assert done.returncode == 0 and done.stderr == ""


def test_a_compiler_replaced_in_place_is_another(place):
    script = place.script('# 1\nexec {cc} "$@"')
    before = os.stat(script)
    place.works(CC=script)
    place.works(CC=script)
    assert len(list(place.cache.glob("*.so"))) == 1
    place.script('# 2\nexec {cc} "$@"')
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    place.works(CC=script)
    assert len(list(place.cache.glob("*.so"))) == len(list(place.cache.glob("tool*"))) == 2


# ---- CFLAGS


@pytest.mark.parametrize(
    "value",
    some(["-g -O1", "-DX='a b' -I /nowhere", "-O3", "-fno-fast-math", " "], lambda n: n < 2),
)
def test_cflags_that_are_right(place, value):
    place.works(CFLAGS=value)


# ---- what compilers read


@pytest.mark.parametrize("first", some([0, 1], lambda n: n == 0))
def test_where_compilers_look_is_part_of_what_is_kept(place, first):
    place.works()
    names = [n for n in toolchain._READ_BY_COMPILERS if n != "GCC_EXEC_PREFIX"]  # see below
    for count, name in enumerate(names[first::2], 2):
        place.works(**{name: str(place.home)})
        assert len(list(place.cache.glob("*.so"))) == count


def test_a_header_of_another_folder_counts(place):
    (place.home / "math.h").write_text("#error not mine\n")
    place.works()
    for name in ("CPATH", "C_INCLUDE_PATH"):
        place.fails(r"cannot make a shared library .*#error not mine", **{name: str(place.home)})
    place.works()


def test_a_compiler_that_is_sent_elsewhere(place):
    if "gcc" not in subprocess.run([CC, "-v"], capture_output=True, text=True, check=False).stderr:
        pytest.skip("the variable is gcc's")
    place.works()
    place.fails(r"cannot make a shared library", GCC_EXEC_PREFIX="/nowhere/")
    place.works()


def test_what_is_withheld_does_nothing(place):
    place.works(**dict.fromkeys(process._WITHHELD, str(place.folder / "x")))
    assert place.holds()
    place.works()
    assert len(list(place.cache.glob("*.so"))) == 1


# ---- folders


@pytest.mark.parametrize(
    "make, value, said",
    [
        ("touch x", "x", r"this one is not a folder; create one with mode 700"),
        ("mkdir -m 777 x", "x", r"this one is writable by others"),
        ("mkdir y; ln -s y x", "x", r"this one is a symbolic link"),
        ("touch x", "x/y", r"this one cannot be created: Not a directory"),
        (":", "/proc/x", r"this one cannot be created"),
        (":", "/dev/null", r"this one is not a folder"),
        (":", "x" * 300, r"this one cannot be created: File name too long"),
        (":", "x\udcff", r"has a name that is not UTF-8"),
    ],
)
def test_a_cache_folder_that_is_wrong(place, make, value, said):
    subprocess.run(["sh", "-c", make], cwd=place.folder, check=True)
    before = sorted(place.folder.rglob("*"))
    place.fails(said, MINITENSOR_CACHE_DIR=value)
    assert sorted(place.folder.rglob("*")) == before


def test_a_cache_folder_that_is_read_only(place):
    place.cache.mkdir(mode=0o700)
    cache, before = shlex.quote(str(place.cache)), ()
    if os.geteuid() == 0:  # modes do not bind root, mounts do
        mount = f"mount --bind {cache} {cache} && mount -o remount,ro,bind {cache}"
        before = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")
        if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
            pytest.skip("root may write anywhere, and may not mount here")
    else:
        place.cache.chmod(0o500)
    place.fails(r"this one is not writable; create one with mode 700", before=before)


@pytest.mark.parametrize(
    "name",
    some(["ü 名", "rel/at/ive", "~/mine", "with spaces", "'quoted\"", "-x"], lambda n: n < 3),
)
def test_a_cache_folder_of_any_name(place, name):
    place.works(MINITENSOR_CACHE_DIR=name)
    made = place.home / "mine" if name == "~/mine" else place.folder / name
    assert len(list(made.glob("*.so"))) == 1
    assert made.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("value", ["", None])
def test_without_a_cache_folder_it_is_the_users(place, value):
    place.works(MINITENSOR_CACHE_DIR=value)
    assert len(list((place.home / ".cache" / "minitensor").glob("*.so"))) == 1
    other = place.folder / "xdg"
    place.works(MINITENSOR_CACHE_DIR=value, XDG_CACHE_HOME=str(other))
    assert len(list((other / "minitensor").glob("*.so"))) == 1
    place.works(MINITENSOR_CACHE_DIR=value, XDG_CACHE_HOME="relative")
    assert place.holds("xdg")


@pytest.mark.parametrize(
    "home, said",
    some(
        [
            (None, r"not known, for HOME is not set"),
            ("relative", r"HOME='relative' is not an absolute path"),
            ("{folder}/none", r"HOME='.*/none' is not a folder"),
            ("/proc", r"the cache folder /proc/\.cache/minitensor cannot be created"),
            ("", r"not known, for HOME is not set"),
            ("/dev/null", r"HOME='/dev/null' is not a folder"),
        ],
        lambda n: n < 4,
    ),
)
def test_a_home_that_is_wrong(place, home, said):
    home = home and home.format(folder=place.folder)
    (place.folder / "t m p").mkdir()
    temporary = str(place.folder / "t m p")
    place.works(
        said + r".*; kernels are kept in .*/t m p/minitensor-\w+ until this process ends",
        MINITENSOR_CACHE_DIR=None,
        HOME=home,
        TMPDIR=temporary,
    )
    assert place.holds("t m p") and not os.listdir(temporary)


@pytest.mark.parametrize(
    "value", some(["{folder}/none", "{folder}/sp ace", "/proc", ""], lambda n: n < 2)
)
def test_folders_for_temporary_files(place, value):
    (place.folder / "sp ace").mkdir()
    value = value.format(folder=place.folder)
    place.works(TMPDIR=value)
    place.works(r"kernels are kept in", TMPDIR=value, MINITENSOR_CACHE_DIR=None, HOME=None)
    assert place.holds("sp ace")


def test_a_folder_for_temporary_files_that_is_not_utf8(place):
    (place.folder / "x\udcff").mkdir()
    where = str(place.folder / "x\udcff")
    place.fails(r"TMPDIR is not UTF-8", TMPDIR=where, MINITENSOR_CACHE_DIR=None, HOME=None)
    place.works(TMPDIR=where)


@pytest.mark.parametrize("blocks", some([0, 28, 2000, 2, 31, 40], lambda n: n in (1, 2)))
def test_no_room_for_the_questions(place, shared, blocks):
    """A limit on files, in half kilobytes, is what a full disk is, and binds root."""
    limit = ("sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh")
    place.fails(r"cannot work in the cache folder .*: File too large; free some", before=limit)
    assert not list(place.cache.glob("*"))
    assert place.start("-c", CALL).stdout == shared.start("-c", CALL).stdout


@pytest.mark.parametrize("blocks", some([0, 20, 2], lambda n: n == 1))
def test_no_room_for_a_kernel(place, blocks):
    place.works()
    before = sorted(place.cache.rglob("*"))
    limit = ("sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh")
    place.fails(r"File too large; free some|failed with status", before=limit)
    assert sorted(place.cache.rglob("*")) == before
    assert place.start(*ASSEMBLY).returncode == 0


# ---- running


@pytest.fixture(scope="module")
def shared(tmp_path_factory, copies):
    """A place that several tests use: its compiler has been asked, and CALL's kernel is there."""
    place = Place(tmp_path_factory.mktemp("shared"), copies)
    place.works()
    return place


@pytest.mark.parametrize(
    "value",
    some(["0", "many", "4097", "2 3", "-1", "1e3", "99999999999999999999"], lambda n: n < 4),
)
def test_numbers_of_threads_that_make_no_sense(shared, value):
    usual = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    said = rf"OMP_NUM_THREADS={value!r} is ignored: expected a number from 1 to 4096"
    shared.works(said, cores=usual, OMP_NUM_THREADS=value)


@pytest.mark.parametrize(
    "value, cores",
    some([("3", 3), ("2,4", 2), ("200", 200), ("1", 1), (" 2 ", 2)], lambda n: n < 3),
)
def test_numbers_of_threads(shared, value, cores):
    shared.works(cores=cores, OMP_NUM_THREADS=value)


@pytest.mark.parametrize(
    "name", some(["OMP_SCHEDULE", "OMP_STACKSIZE", "OMP_PROC_BIND"], lambda n: n < 1)
)
def test_what_only_the_openmp_runtime_reads(shared, name):
    done = shared.start("-c", CALL, **{name: "nonsense"})
    assert done.returncode == 0 and float(done.stdout.split()[0]) == 128


@pytest.mark.parametrize("value", some(["1", "x", "", "0"], lambda n: n < 2))
def test_debugging(shared, value):
    shared.works(MINITENSOR_DEBUG=value)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"NO_COLOR": ""}, {"TERM": "dumb"}])
def test_colours(place, variables):
    done = place.start("-m", "minitensor", "show", "matmul", "--small", **variables)
    assert done.returncode == 0 and "\033" not in done.stdout


@pytest.mark.parametrize("name", ["NVCC", "CUDA_HOME"])
def test_nvcc_that_is_not_there(place, name):
    done = place.start("-m", "minitensor", "doctor", **{name: "/nowhere"})
    assert done.returncode == 0
    told = "NVCC='/nowhere': no such program is found" in done.stdout
    assert told == (name == "NVCC")
