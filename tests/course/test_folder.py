"""A student's folder, the commands that work on it, and reports for other programs."""

import csv
import json
import sys

import pytest

from minitensor.cli.main import main
from tutorials import Verdict, lessons
from tutorials.course import folder as folders
from tutorials.course import reports

VERDICTS = [
    Verdict("01", "define", 1, seconds=0.5),
    Verdict("01", "tiles", 2, "it is not so", "assert False\n", "hello"),
    Verdict("02", "summary", 1),
]


class TestStart:
    def test_all_lessons_are_written_and_nothing_is_overwritten(self, tmp_path):
        folder = tmp_path / "deep" / "course"
        started = folders.start(folder)
        names = {p.name for p in folder.iterdir()}
        for lesson in lessons():
            assert {lesson.path.name, lesson.stubs.name} <= names
            assert (folder / lesson.path.name).read_text() == lesson.text
        assert not started.kept and len(started.written) > 2 * len(lessons())
        (folder / "01_tasks.py").write_text("mine")
        (folder / "README.md").unlink()
        again = folders.start(folder)
        assert again.written == (folder / "README.md",)
        assert (folder / "01_tasks.py").read_text() == "mine"
        assert folder / "01_tasks.py" in again.kept

    def test_pictures_are_where_lessons_name_them(self, tmp_path):
        folders.start(tmp_path)
        assert {p.name[:2] for p in (tmp_path / "pictures").iterdir()} == {
            lesson.number for lesson in lessons()
        }

    def test_commands(self, tmp_path, capsys):
        assert main(["course", "start", str(tmp_path)]) == 0
        assert "files written" in capsys.readouterr().out
        assert main(["course", "start", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["written"] == []
        assert main(["course", "start", str(tmp_path)]) == 0
        assert "stay as they are: README.md" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["start", "FILE"], "it is a file, no folder"),
            (["start", "new", "--language", "xx"], "no lessons are in 'xx'"),
            (["start", "a\0b"], "cannot write to"),
            (["check", "99"], "there is no lesson '99'; there are 01 to"),
            (["check", "one"], "there is no lesson 'one'"),
            (["check", "--dir", "nowhere"], "there is no folder nowhere"),
            (["check", "--dir", "x" * 5000], "there is no folder x"),
            (["check", "77"], f"there are 01 to {lessons()[-1].number}"),
            (["list", "--dir", "nowhere"], "there is no folder nowhere"),
            (["check"], "has no tasks (01_tasks.py and so on)"),
            (["check", "01", "--task", "nope"], "there is no task 'nope'; there are define"),
            (["check", "01", "--gradescope", "no/where"], "there is no folder no"),
        ],
    )
    def test_what_cannot_be_is_a_sentence(self, words, part, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "FILE").write_text("")
        assert main(["course", *words]) == 1
        told = capsys.readouterr()
        assert part in told.err and told.out == "" and "Traceback" not in told.err

    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["check", "--file", "a.py"],
            ["check", "01", "02", "--file", "a.py"],
            ["quiz", "01"],
            ["quiz", "03", "--count", "0"],
        ],
    )
    def test_bad_usage(self, words, capsys):
        assert main(["course", *words]) == 2
        assert "course" in capsys.readouterr().err

    def test_notebooks_need_their_extra(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "jupytext", None)
        assert main(["course", "start", str(tmp_path), "--notebooks"]) == 1
        assert "minitensor[course]" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())


class TestProgress:
    def test_what_was_right_is_noted_until_it_is_wrong(self, tmp_path):
        folders.note(tmp_path, VERDICTS)
        assert folders.progress(tmp_path) == {"01": ["define"], "02": ["summary"]}
        folders.note(tmp_path, [Verdict("01", "define", 1, "no"), Verdict("01", "tiles", 2)])
        assert folders.progress(tmp_path) == {"01": ["tiles"], "02": ["summary"]}

    @pytest.mark.parametrize("text", ["", "[]", '{"01": 3}', '{"01": [3]}', "\0", "[" * 10**5])
    def test_a_damaged_note_is_none(self, text, tmp_path, capsys):
        (tmp_path / folders.PROGRESS).write_text(text)
        assert main(["course", "list", "--dir", str(tmp_path)]) == 0
        assert "0 of 3 done" in capsys.readouterr().out

    def test_list(self, tmp_path, capsys):
        folders.note(tmp_path, VERDICTS)
        assert main(["course", "list", "--dir", str(tmp_path), "--json"]) == 0
        first, *_ = json.loads(capsys.readouterr().out)
        assert first["lesson"] == "01" and first["done"] == ["define"]

    def test_scripts_come_and_go(self, tmp_path):
        assert folders.keep_script(tmp_path, VERDICTS[0]) is None
        path = folders.keep_script(tmp_path, VERDICTS[1])
        assert path == tmp_path / "shown" / "01_tiles.py" and path.read_text() == "assert False\n"
        folders.keep_script(tmp_path, Verdict("01", "tiles", 2))
        assert not path.exists()


def test_nothing_is_written_through_a_link(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("mine")
    folder = tmp_path / "student"
    folder.mkdir()
    (folder / folders.PROGRESS).symlink_to(other / "file")
    (folder / folders.SCRIPTS).symlink_to(other)
    folders.note(folder, VERDICTS)
    assert folders.keep_script(folder, VERDICTS[1]) is None
    assert (other / "file").read_text() == "mine" and len(list(other.iterdir())) == 1


@pytest.mark.slow
def test_check_tells_writes_and_notes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["course", "start", "."]) == 0
    text = (
        "def recompute(s):\n    s.compute_inline('P')\n\n\ndef tiles(s, size):\n    print('me')\n"
    )
    (tmp_path / "01_tasks.py").write_text(text)
    capsys.readouterr()
    words = ["--gradescope", "g.json", "--nbgrader", "n.csv", "--student", "=ada"]
    assert main(["course", "check", "01", *words]) == 1
    told = capsys.readouterr().out
    assert "right  recompute" in told and "1 of 3 points" in told
    assert "wrong  define: 01_tasks.py does not define define" in told
    assert "printed: me" in told and "shown by: python shown/01_tiles.py" in told
    assert (tmp_path / "shown" / "01_tiles.py").is_file()
    assert json.loads((tmp_path / "g.json").read_text())["score"] == 1
    assert "'=ada" in (tmp_path / "n.csv").read_text()
    assert folders.progress(tmp_path)["01"] == ["recompute"]
    assert main(["course", "check", "01", "--task", "recompute", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == 1


class TestReports:
    def test_json_has_all_of_it(self):
        found = reports.as_json(VERDICTS)
        assert (found["points"], found["of"]) == (2, 4)
        tiles = found["tasks"][1]
        assert tiles["lacking"] == "it is not so" and tiles["script"] and not tiles["passed"]
        json.dumps(found)

    def test_gradescope(self):
        found = reports.as_gradescope(VERDICTS)
        assert found["score"] == sum(t["score"] for t in found["tests"]) == 2
        assert [t["status"] for t in found["tests"]] == ["passed", "failed", "passed"]

    def test_nbgrader(self):
        rows = list(csv.DictReader(reports.as_nbgrader(VERDICTS, "ada").splitlines()))
        assert [(r["assignment"], r["score"], r["max_score"]) for r in rows] == [
            ("lesson 01", "1", "3"),
            ("lesson 02", "1", "1"),
        ]
        assert {r["student_id"] for r in rows} == {"ada"}
