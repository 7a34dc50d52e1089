"""Pages whose cells run: their text, the files beside them, and what runs in the tab."""

import hashlib
import io
import json
import re
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

import minitensor as mt
from minitensor.cli.main import main
from tutorials import find, lessons
from tutorials.web import assets, pages, slides, tab
from tutorials.web.assets import Asset, AssetError, fetched
from tutorials.web.serve import server_of

# ---- assets


def offered(folder, data, name="thing.bin"):
    """A file that a URL names."""
    path = folder / name
    path.write_bytes(data)
    return path.as_uri(), hashlib.sha256(data).hexdigest()


def wheel(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as into:
        for name, data in members.items():
            into.writestr(name, data)
    return buffer.getvalue()


def test_a_file_is_fetched_once_and_checked(tmp_path, monkeypatch):
    url, right = offered(tmp_path, b"python")
    asset = Asset([url], right, {"": "web/python.wasm"})
    fetched(tmp_path / "kept", [asset])
    assert (tmp_path / "kept/web/python.wasm").read_bytes() == b"python"
    monkeypatch.setattr(urllib.request, "urlopen", None)
    fetched(tmp_path / "kept", [asset])


def test_another_file_than_the_pinned_one_is_refused(tmp_path):
    url, _ = offered(tmp_path, b"python")
    with pytest.raises(AssetError, match=r"thing.bin is another file than the one that was pinned"):
        fetched(tmp_path / "kept", [Asset([url], "0" * 64, {"": "python.wasm"})])
    assert not (tmp_path / "kept").exists()


def test_the_next_source_answers_where_one_does_not(tmp_path):
    inside = b"numpy"
    url, outer = offered(tmp_path, wheel(numpy=inside), "other.whl")
    missing = (tmp_path / "nothing").as_uri()
    right = hashlib.sha256(inside).hexdigest()
    asset = Asset([missing], right, {"": "numpy.whl"}, [(url, outer, "numpy")])
    assert (fetched(tmp_path / "kept", [asset]) / "numpy.whl").read_bytes() == inside
    wrong = Asset([missing], "0" * 64, {"": "n.whl"}, [(url, outer, "numpy")])
    with pytest.raises(AssetError, match=r"cannot fetch nothing from .*: .*No such file"):
        fetched(tmp_path / "kept", [wrong])


def test_pages_do_without_a_compiler(tmp_path, monkeypatch):
    url, right = offered(tmp_path, b"python")
    monkeypatch.setattr(assets, "ASSETS", ())
    monkeypatch.setattr(assets.fetched, "__defaults__", ((),))
    monkeypatch.setattr(assets, "COMPILER", [Asset([url], right, {"": "clang/bundle.js"})])
    assert assets.gathered(tmp_path / "kept") == "" and assets.has_compiler(tmp_path / "kept")
    monkeypatch.setattr(assets, "COMPILER", [Asset([url], "0" * 64, {"": "clang/more.js"})])
    said = assets.gathered(tmp_path / "kept")
    assert said.startswith("kernels are not compiled in these pages: thing.bin is another file")
    assert not assets.has_compiler(tmp_path / "kept")


def test_every_archive_is_pinned():
    assert all(re.fullmatch("[0-9a-f]{64}", asset.sha256) for asset in assets.ASSETS)
    assert all(url.startswith("https://") for asset in assets.ASSETS for url in asset.urls)
    targets = [to for asset in assets.ASSETS for to in asset.members.values()]
    assert len(set(targets)) == len(targets)
    assert "numpy" in assets.wheels()[0]  # the worker has Pyodide load it, for it has machine code


# ---- pages


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.number)
def test_a_page_has_every_cell_and_picture(lesson):
    text = pages.lesson_markdown(lesson)
    code = [cell.text for cell in lesson.cells if cell.kind == "code"]
    assert text.count('<div class="mt-cell"') == len(code)
    assert text.count('<div class="mt-tasks"') == 1
    drawn = [name for cell in code for name in re.findall(r'^picture\(\s*"(\w+)"', cell, re.M)]
    assert re.findall(r"\]\(pictures/(\w+).svg\)", text) == drawn


def test_pictures_are_taken_out_of_the_code():
    text = 'x = 1\npicture("01_a", x)\npicture(\n    "01_b",\n    x,\n)\ny = picture'
    code, drawn = pages.without_pictures(text)
    assert [line for line in code.splitlines() if line] == ["x = 1", "y = picture"]
    assert drawn == {"01_a": 'picture("01_a", x)', "01_b": 'picture(\n    "01_b",\n    x,\n)'}


def test_a_page_shows_what_cells_print():
    lesson = find("01")
    count = sum(cell.kind == "code" for cell in lesson.cells)
    text = pages.lesson_markdown(lesson, ["\n".join(map(str, range(100)))] + ["said"] * (count - 1))
    assert '```text title="prints"\n0\n1\n' in text and "\n59\n…\n```" in text
    assert text.count('```text title="prints"') == count


def test_the_archive_is_the_same_each_time_and_whole():
    name, data = pages.archive()
    assert (name, data) == pages.archive()
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        names = found.namelist()
    assert {"minitensor/__init__.py", "minitensor_course/web/tab.py"} <= set(names)
    assert "minitensor_course/stubs/01_tasks.py" in names
    assert not [n for n in names if n.endswith(".pyc")]


def test_the_head_of_a_page_names_what_the_worker_loads():
    head = pages.head(find("02"), "minitensor-abc.zip", False)
    about = json.loads(re.search('content="([^"]*)"', head)[1].replace("&quot;", '"'))
    assert about["lesson"] == "02" and about["file"] == "02_tasks.py"
    assert about["tasks"] == [task.name for task in find("02").tasks]
    assert about["archive"] == "minitensor-abc.zip"
    assert about["compiler"] is None
    imports = json.loads(re.search('importmap">(.*)</script>', head)[1])["imports"]
    assert imports["@codemirror/legacy-modes/mode/python"].startswith("./web/editor/")


@pytest.mark.slow
def test_a_site_is_pages_that_lead_to_each_other(tmp_path, monkeypatch):
    pytest.importorskip("markdown")
    kept = tmp_path / "kept"
    for asset in (*assets.ASSETS, *assets.COMPILER):
        for to in asset.members.values():
            (kept / to).parent.mkdir(parents=True, exist_ok=True)
            (kept / to).write_bytes(b"")
    pages.write_site(tmp_path / "site", kept)
    found = sorted(path.name for path in (tmp_path / "site").glob("*.html"))
    assert found == [*(f"{lesson.name}.html" for lesson in lessons()), "index.html"]
    links = re.findall(
        r'href="([\w./-]+)"', "".join(p.read_text() for p in tmp_path.glob("site/*.html"))
    )
    assert len(set(links)) > len(found)
    assert [link for link in set(links) if not (tmp_path / "site" / link).is_file()] == []
    assert (tmp_path / "site/offline.js").is_file()


# ---- slides


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.number)
def test_slides_have_the_questions_and_the_pictures(lesson):
    pytest.importorskip("markdown")
    text = slides.slides(lesson)
    questions = sum(cell.text.count("**Predict first.**") for cell in lesson.cells)
    assert text.count('<div class="question">') == questions >= 1
    assert text.count("<svg") == pages.lesson_markdown(lesson).count("](pictures/")
    assert 8 <= text.count("<section") <= 60
    assert "## " not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.S)


def test_slides_are_written_and_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("markdown")
    monkeypatch.setattr(slides.shutil, "which", lambda name: None)
    assert main(["course", "slides", "7", "--out", str(tmp_path), "--json"]) == 0
    assert [p.name for p in map(Path, json.loads(capsys.readouterr().out))] == ["07_refusals.html"]
    monkeypatch.setattr(slides.shutil, "which", lambda name: "/nowhere/chromium")
    assert main(["course", "slides", "7", "--out", str(tmp_path)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "does not print 07_refusals.html as PDF; open it there, and print it" in said
    assert main(["course", "slides", "77"]) == 1
    (tmp_path / "file").write_text("")
    assert main(["course", "slides", "7", "--out", str(tmp_path / "file")]) == 1
    assert "cannot write to" in capsys.readouterr().err


# ---- the tab


@pytest.fixture
def shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hook = sys.displayhook
    tab.start()
    found = []
    yield lambda source: (tab.run(source, "1", lambda *pair: found.append(pair)), found)
    assert sys.displayhook is hook


def test_the_value_of_the_last_expression_is_shown(shown):
    assert shown("x = 3\nx + 1\n'a'") == (True, [("text", "'a'\n")])


def test_names_stay_and_none_is_not_shown(shown):
    shown("x = 3")
    assert shown("def f(y):\n    return x + y")[0]
    assert shown("print")[1][-1][1].startswith("<built-in")
    assert shown("f(4)")[1][-1] == ("text", "7\n")
    assert len(shown("None")[1]) == 2


def test_what_draws_itself_is_drawn(shown):
    ok, found = shown(
        "import minitensor as mt\nfrom minitensor_course import picture\n"
        "A = mt.placeholder((4,), name='A')\nB = mt.compute((4,), lambda i: A[i], name='B')\n"
        "picture('01_copy', mt.lower([A, B]))"
    )
    assert ok and found[-1][0] == "svg" and found[-1][1].startswith("<svg")


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("x = = 2", "SyntaxError: invalid syntax"),
        ("def f():\n    return 1 / 0\nf()", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("x = '\0'", "null byte"),
    ],
)
def test_a_failure_is_told_by_the_lines_of_cells(shown, source, last):
    ok, [(kind, text)] = shown(source)
    assert not ok and kind == "error" and last in text
    assert "tab.py" not in text and "code.py" not in text
    assert shown("6 * 7")[1][-1] == ("text", "42\n")


def test_a_refusal_is_told_without_our_insides(shown):
    ok, found = shown(
        "import minitensor as mt\nA = mt.placeholder((4,), name='A')\n"
        "B = mt.compute((4,), lambda i: A[i], name='B')\n"
        "mt.Schedule(mt.lower([A, B])).compute_inline('B')"
    )
    assert not ok and "breaks R2" in found[-1][1]
    assert re.findall(r'File "([^"]*)"', found[-1][1]) == ["<cell 1>"]


def test_answers_are_judged_in_the_tab():
    said = []
    text = find("01").stubs.read_text()
    found = json.loads(tab.check("01", text, lambda *pair: said.append(pair)))
    assert [one["lacking"] for one in found] == ["it is not written yet"] * 3
    assert said[0] == ("text", "not yet: define\n")
    right = text.replace("raise NotImplementedError", 's.compute_inline("P")')
    by_task = {one["task"]: one for one in json.loads(tab.check("01", right, print))}
    assert by_task["recompute"]["lacking"] == "" and by_task["tiles"]["script"]
    broken = json.loads(tab.check("01", "def define(n) return", print))
    assert all("SyntaxError" in one["lacking"] or "line 1" in one["lacking"] for one in broken)


def test_bytecode_is_kept_unchecked(tmp_path):
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    (cache / "a.cpython-312.pyc").write_bytes(b"code\0\0\0\0timesizebody")
    with zipfile.ZipFile(io.BytesIO(tab.compiled(str(tmp_path)))) as found:
        assert found.read("__pycache__/a.cpython-312.pyc") == b"code\1\0\0\0" + bytes(8) + b"body"


# ---- a server, and the command


@pytest.mark.slow
def test_a_server_names_types_and_shows_no_folder(tmp_path):
    (tmp_path / "a.mjs").write_text("1")
    (tmp_path / "b.wasm").write_bytes(b"")
    (tmp_path / "c").mkdir()
    with server_of(tmp_path, port=0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_address[1]}"
        for name, kind in (
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("b.wasm", "application/wasm"),
        ):
            with urllib.request.urlopen(f"{at}/{name}") as answer:
                assert answer.headers["Content-Type"] == kind
                assert answer.headers["Cache-Control"] == "no-cache"
        for name in ("c/", "nothing", "../../etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{at}/{name}")
        with pytest.raises(
            mt.ArgumentError, match=r"Address already in use; --port 0 takes a free"
        ):
            server_of(tmp_path, port=server.server_address[1])
        server.shutdown()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the folder to write to: minitensor course start my_course"),
        (["--web", "--notebooks"], "--web has the English lessons"),
        (["--web", "--language", "de"], "--web has the English lessons"),
    ],
)
def test_a_start_that_lacks_something_is_refused(words, said, capsys):
    assert main(["course", "start", *words]) != 0
    assert said in capsys.readouterr().err


def test_no_network_is_said(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise urllib.error.URLError(OSError(101, "Network is unreachable"))

    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    assert main(["course", "start", "--web", str(tmp_path / "pages")]) == 1
    said = capsys.readouterr().err
    assert "cannot fetch pyodide-0.27.7.tgz from registry.npmjs.org" in said
    assert "Network is unreachable" in said
    assert not (tmp_path / "pages/index.html").exists()
