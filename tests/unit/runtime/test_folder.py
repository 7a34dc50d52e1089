"""Code is loaded from the cache folder, so no other user may be able to write to it."""

import logging
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from minitensor import errors
from minitensor.runtime import cache_folder, folder
from minitensor.runtime.folder import (
    entry_name,
    is_temporary,
    keep,
    read_entry,
    recall,
    remember,
    scratch_folder,
    store,
)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder, and no variable that names the cache folder."""
    monkeypatch.delenv("MINITENSOR_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_created_private_whatever_the_umask(tmp_path, monkeypatch, umask):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    before = os.umask(umask)
    try:
        folder = cache_folder()
    finally:
        os.umask(before)
    assert folder == tmp_path / "deep" / "cache"
    assert mode(folder) == mode(folder.parent) == 0o700


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077, 0o777])
def test_what_is_kept_is_private_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        made = tmp_path / "made"
        made.write_bytes(b"kept")
    finally:
        os.umask(before)
    keep(made, tmp_path / "entry")
    assert mode(tmp_path / "entry") & 0o722 == 0o600
    assert read_entry(tmp_path / "entry") == b"kept"
    assert not made.exists()


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    (tmp_path / "made").write_bytes(b"kept")
    (tmp_path / "entry").mkdir()
    with pytest.raises(errors.CompileError, match=r"entry is a folder where a file .* remove it"):
        keep(tmp_path / "made", tmp_path / "entry")


@pytest.mark.parametrize("bit", [stat.S_IWGRP, stat.S_IWOTH])
def test_what_others_may_write_to_is_not_read(tmp_path, bit):
    entry = tmp_path / "entry"
    entry.write_bytes(b"kept")
    entry.chmod(0o600 | bit)
    with pytest.raises(PermissionError, match="others could have written to it"):
        read_entry(entry)


def test_named_folder_may_start_with_a_tilde(home, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", "~/mine")
    assert cache_folder() == home / "mine"


def test_default_is_the_cache_folder_of_the_user(home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == home / ".cache" / "minitensor"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == home / "Library" / "Caches" / "minitensor"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    assert cache_folder() == home / "xdg" / "minitensor"


def test_relative_xdg_folder_is_ignored(home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder().is_relative_to(home)


# ---- unfit folders


def spoil_with_link(folder):
    target = folder.parent / "target"
    target.mkdir(mode=0o700)
    folder.symlink_to(target)


def spoil_with_group(folder):
    folder.mkdir()
    folder.chmod(0o770)


def spoil_with_world(folder):
    folder.mkdir()
    folder.chmod(0o702)


def spoil_with_file(folder):
    folder.write_text("")


def spoil_with_parent(folder):
    folder.parent.rmdir()
    folder.parent.write_text("")


def spoil_with_loose_parent(folder):
    folder.parent.chmod(0o777)


def spoil_with_loose_grandparent(folder):
    folder.parent.chmod(0o777)
    folder.parent.rename(folder.parent.with_name("loose"))
    inner = folder.parent.with_name("loose") / "inner"
    inner.mkdir()
    folder.parent.symlink_to(inner)


SPOILED = [
    ("is a symbolic link", spoil_with_link),
    ("is writable by others", spoil_with_world),
    ("is writable by others", spoil_with_group),
    ("is not a folder", spoil_with_file),
    ("cannot be created: Not a directory", spoil_with_parent),
    ("where everyone may put another in its place", spoil_with_loose_parent),
    ("where everyone may put another in its place", spoil_with_loose_grandparent),
]


@pytest.mark.parametrize("fault, spoil", SPOILED)
def test_named_folder_that_is_unfit_is_refused(tmp_path, monkeypatch, fault, spoil):
    named = tmp_path / "place" / "cache"
    named.parent.mkdir()
    spoil(named)
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(named))
    message = f"{fault}; create one with mode 700, or unset the variable"
    with pytest.raises(errors.ArgumentError, match=re.escape(message)) as caught:
        cache_folder()
    assert "(this one " in str(caught.value)
    assert "but got MINITENSOR_CACHE_DIR='" in str(caught.value)


@pytest.mark.parametrize("fault, spoil", SPOILED)
def test_default_folder_that_is_unfit_is_replaced(home, monkeypatch, caplog, fault, spoil):
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    (home / "xdg").mkdir()
    spoil(home / "xdg" / "minitensor")
    with caplog.at_level(logging.WARNING, "minitensor"):
        folder = cache_folder()
        assert cache_folder() == folder
    assert is_temporary(folder) and mode(folder) == 0o700
    assert not folder.is_relative_to(home)
    (record,) = caplog.records
    assert fault in record.getMessage() and str(folder) in record.getMessage()


def test_folder_below_one_like_tmp_is_taken(tmp_path, monkeypatch):
    """The sticky bit: everyone may add, and only the owner may change."""
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o1777)
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "all" / "mine"))
    assert mode(cache_folder()) == 0o700


def test_no_temporary_folder_where_everyone_may_change_it(tmp_path, monkeypatch):
    monkeypatch.delenv("MINITENSOR_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "all"))
    folder._temporary_folder.cache_clear()
    with pytest.raises(errors.CompileError, match=r"HOME is not set, .*\(everyone may change"):
        cache_folder()
    assert list((tmp_path / "all").iterdir()) == []


def test_folder_of_another_user_is_refused(cache, monkeypatch):
    cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(errors.ArgumentError, match="this one belongs to another user"):
        cache_folder()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission_to_write_is_refused(cache):
    cache.mkdir()
    cache.chmod(0o500)
    with pytest.raises(errors.ArgumentError, match="this one is not writable"):
        cache_folder()


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        None,
        *[
            pytest.param(v, marks=pytest.mark.slow)
            for v in ("", "not/absolute", "/proc/none/at/all")
        ],
    ],
)
def test_without_a_home_the_folder_is_temporary_and_goes_with_the_process(home, monkeypatch, value):
    environment = {k: v for k, v in os.environ.items() if k != "HOME"}
    if value is not None:
        environment["HOME"] = value
    code = "from minitensor.runtime import cache_folder; print(cache_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "minitensor-" in done.stdout
    assert not Path(done.stdout.strip()).exists()
    wrong = {"not/absolute": "is not an absolute path", "/proc/none/at/all": "is not a folder"}
    said = f"HOME={value!r} {wrong[value]}" if value else "HOME is not set"
    assert said in done.stderr  # logging's last resort prints warnings


# ---- what lies in it


def test_scratch_folder_is_private_and_removed(cache):
    with scratch_folder(cache_folder()) as scratch:
        assert scratch.parent == cache and mode(scratch) == 0o700
        (scratch / "file").write_text("x")
    assert list(cache.iterdir()) == []


def test_scratch_folder_is_removed_after_an_error(cache):
    with pytest.raises(KeyboardInterrupt), scratch_folder(cache_folder()):
        raise KeyboardInterrupt
    assert list(cache.iterdir()) == []


def test_failing_disk_becomes_an_error_that_says_where(cache):
    with (
        pytest.raises(
            errors.CompileError, match=r"cannot work in the cache folder .*No space left"
        ),
        scratch_folder(cache_folder()),
    ):
        raise OSError(28, "No space left on device")


def test_scratch_of_killed_processes_is_swept(cache):
    folder = cache_folder()
    old, new, other = folder / "build-old", folder / "build-new", folder / "kept"
    for path in (old, new, other):
        path.mkdir()
        (path / "file").write_text("")
    for path in (old, other):
        os.utime(path, (0, 0))
    with scratch_folder(folder):
        assert not old.exists() and new.exists() and other.exists()


def test_entry_is_read_unless_it_is_a_link(cache):
    entry = cache_folder() / "entry"
    entry.write_bytes(b"content")
    assert read_entry(entry) == b"content"
    (cache / "link").symlink_to(entry)
    with pytest.raises(OSError, match="symbolic link"):
        read_entry(cache / "link")


def test_entry_that_is_no_plain_file_is_not_waited_for(cache):
    os.mkfifo(cache_folder() / "pipe")
    (cache / "folder").mkdir()
    for name in ("pipe", "folder", "missing"):
        with pytest.raises(OSError, match=r"no plain file|Is a directory|No such file"):
            read_entry(cache / name)


def test_entry_of_another_user_is_not_read(cache, monkeypatch):
    entry = cache_folder() / "entry"
    entry.write_bytes(b"content")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="no plain file of this user"):
        read_entry(entry)


def damaged(written):
    """A written document in every way in which one byte of it can be missing or wrong."""
    yield from (written[:n] for n in range(len(written)))
    yield from (
        written[:n] + bytes([written[n] ^ 1]) + written[n + 1 :] for n in range(len(written))
    )
    yield from (written + b"\n", written.upper(), b"[" * 100_000, b"{}", b"\xff")


def test_a_document_is_read_back_as_it_was_written(cache):
    name, document = entry_name("kind", "facts", 1), {"ü": [1, "two"], "": None}
    assert recall(name) is None
    remember(name, document)
    assert recall(name) == document
    (entry,) = cache.iterdir()
    assert entry.name == f"{name}.json" and name.startswith("kind-")
    written = entry.read_bytes()
    for other in damaged(written):
        entry.write_bytes(other)
        assert recall(name) is None
    entry.write_bytes(written)
    assert recall(name) == document


def test_a_document_in_the_place_of_another_is_not_taken(cache):
    one, other = entry_name("kind", 1), entry_name("kind", 2)
    remember(one, {"n": 1})
    remember(other, {"n": 2})
    os.replace(cache / f"{one}.json", cache / f"{other}.json")
    assert recall(other) is None


def test_the_name_depends_on_the_kind_the_facts_and_this_version(monkeypatch):
    names = {entry_name("kind", "a"), entry_name("kind", "b"), entry_name("other", "a")}
    monkeypatch.setattr(folder, "__version__", "another")
    names.add(entry_name("kind", "a"))
    monkeypatch.setattr(folder, "cpu_fingerprint", lambda: "another")
    names.add(entry_name("kind", "a"))
    assert len(names) == 5


def test_what_cannot_be_remembered_is_no_error(cache, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "store", full)
    remember(entry_name("kind"), {})
    assert recall(entry_name("kind")) is None


def test_files_of_an_entry_come_before_its_document(cache, monkeypatch):
    kept = []
    monkeypatch.setattr(folder, "keep", lambda made, path: kept.append(path.name))
    with scratch_folder(cache_folder()) as scratch:
        store("kind-1", {}, scratch, scratch / "a.so", scratch / "a.c")
    assert kept == ["kind-1.so", "kind-1.c", "kind-1.json"]
