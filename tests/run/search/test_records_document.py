"""docs/records.md says what a line is; its code runs."""

import json
import pathlib
import re

from minitensor.search import Log
from minitensor.search.ledger import Ledger
from minitensor.search.records import decode, encode
from tests.made_records import KEY, made
from tests.sent import imported

PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "records.md").read_text()


def code():
    return re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for resumed in (False, True):
        module = imported(code()[0])
        assert len(list(Log("tuning.jsonl"))) == 1, resumed
    assert module.schedule.program == module.s.program
    reader = imported(code()[-1])
    defined = imported(pathlib.Path("defined.py").read_text())
    assert reader.is_it(defined.program) and defined.program == module.program
    assert capsys.readouterr().out.startswith("0.000115 4.5")


def test_a_line_of_a_tool_of_your_own():
    line = imported(code()[1]).line
    fields = json.loads(encode(made(5)))
    del fields["crc"], fields["v"]
    assert decode(line(fields).encode().rstrip(b"\n")) == made(5)
    assert line(fields).encode() == encode(made(5))


def test_every_field_is_in_the_table():
    described = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    optional = {"drift": 1.5, "disturbed": True, "parents": (KEY,), "change": "unrolling: 1 -> 2"}
    optional |= {"spent": 0.5, "ledger": Ledger(run=0.5)}
    assert sorted(described) == sorted(json.loads(encode(made(**optional))))
