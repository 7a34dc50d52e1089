"""One record and one line: written, read back, and refused."""

import json
import math
import string
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.errors import ArgumentError
from minitensor.search import Host, Record, new_record, trace_key, workload_key
from minitensor.search.records import LONGEST_LINE, LONGEST_TEXT, Fault, decode, encode
from tests.made_records import KEY, TARGET, canonical, failed, made, records


def program(name="matmul", **sizes):
    return mt.lower(mt.workloads.matmul(**{"m": 8, "n": 8, "k": 4, **sizes}), name=name)


def scheduled():
    s = mt.Schedule(program())
    i, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, 4])
    s.reorder(i, j_0, k, j_1)
    s.vectorize(j_1)
    return s


def line_of(data, **more):
    """A line as docs/records.md says a tool may write it."""
    body = json.dumps({**data, **more}, sort_keys=True, separators=(",", ":"))
    return f'{{"crc":"{zlib.crc32(body.encode()):08x}",{body[1:]}'.encode()


def data_of(record=None):
    data = json.loads(encode(record or made()))
    del data["crc"]
    return data


# ---- round trip


@pytest.mark.slow
@given(records())
def test_what_is_read_is_what_was_written(record):
    line = encode(record)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert line.isascii()
    again = decode(line[:-1])
    assert again == record
    assert encode(again) == line


@given(records())
def test_a_line_is_what_the_documents_say(record):
    line = encode(record)[:-1]
    data = json.loads(line, parse_constant=pytest.fail)
    assert list(data) == ["crc", *sorted(data.keys() - {"crc"})]
    crc = data.pop("crc")
    assert line_of(data) == line
    assert len(crc) == 8 and set(crc) <= set(string.hexdigits.lower())
    assert data["v"] == 1
    assert data["trace"] == json.loads(record.trace)


@given(st.floats(min_value=5e-324, max_value=9e17))
@example(0.1 + 0.2)
@example(5e-324)
def test_times_keep_every_bit(seconds):
    (again,) = decode(encode(made(seconds=(seconds,)))[:-1]).seconds
    assert again.hex() == seconds.hex()


def test_fields_of_others_are_left_alone():
    line = line_of(data_of(), mine={"note": [1, 2]}, zebra=None)
    assert decode(line) == made()


def test_drift_is_written_where_there_is_some_and_its_absence_is_none():
    """Records of earlier versions have none; earlier versions leave the field alone."""
    plain, slow = made(seconds=(2.0, 4.0)), made(seconds=(2.0, 4.0), drift=2.0)
    assert "drift" not in data_of(plain)
    assert decode(line_of(data_of(plain))).drift == 1.0
    assert data_of(slow) == {**data_of(plain), "drift": 2.0}
    assert decode(encode(slow)[:-1]) == slow
    assert slow.median == plain.median, "as measured"
    noisy = made(seconds=(2.0, 4.0), disturbed=True)
    assert data_of(noisy) == {**data_of(plain), "disturbed": True}
    assert decode(encode(noisy)[:-1]) == noisy
    assert decode(line_of(data_of(plain), disturbed=1)) is Fault.DAMAGED
    for wrong in (0, -1.0, "2", None, True, 10**400):
        assert decode(line_of(data_of(plain), drift=wrong)) is Fault.DAMAGED
    costly = made(seconds=(2.0, 4.0), spent=0.25)
    assert data_of(costly) == {**data_of(plain), "spent": 0.25}
    assert decode(encode(costly)[:-1]) == costly
    for wrong in (-1.0, "2", None, True, 10**400):
        assert decode(line_of(data_of(plain), spent=wrong)) is Fault.DAMAGED


def test_lineage_is_written_where_there_is_some():
    """Records of earlier versions have none, and their lines are read as before."""
    plain, child = data_of(), {"parents": [KEY, KEY[::-1]], "change": "crossed; unrolling: 1 -> 2"}
    assert not {"parents", "change"} & set(plain)
    old = decode(line_of(plain))
    assert (old.parents, old.change) == ((), "")
    assert decode(line_of(plain, parents=[], change="")) == old
    record = made(parents=(KEY, KEY[::-1]), change=child["change"])
    assert data_of(record) == {**plain, **child}
    assert decode(encode(record)[:-1]) == record
    assert record.trace_key == old.trace_key


@pytest.mark.parametrize("wrong", [None, KEY, [KEY] * 3, [KEY[1:]], [KEY.upper()], [1], {}, [[]]])
def test_parents_are_two_keys_at_most(wrong):
    assert decode(line_of(data_of(), parents=wrong)) is Fault.DAMAGED
    with pytest.raises(ArgumentError, match="parents"):
        made(parents=wrong)


@pytest.mark.parametrize("wrong", [None, 1, ["text"], "x" * (LONGEST_TEXT + 1)])
def test_a_change_is_a_text_that_is_not_long(wrong):
    assert decode(line_of(data_of(), change=wrong)) is Fault.DAMAGED
    with pytest.raises(ArgumentError, match="change"):
        made(change=wrong)


def test_a_line_in_another_order_and_with_spaces():
    """The checksum is of bytes: the writer may choose the order, with `crc` first."""
    body = json.dumps(dict(reversed(data_of().items())), indent=None)
    line = f'{{"crc":"{zlib.crc32(body.encode()):08x}",{body[1:]}'
    assert decode(line.encode()) == made()


# ---- what is no record


@given(st.binary(max_size=200))
@example(b"")
@example(b'{"crc":"00000000",')
@example(b'{"crc":"00000000",}')
def test_bytes_are_no_record(line):
    assert decode(line) is Fault.DAMAGED


@given(st.data())
def test_any_change_of_a_byte_is_noticed(data):
    line = bytearray(encode(made())[:-1])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(line)) is Fault.DAMAGED


def checked(body):
    """Some bytes with a right checksum."""
    return b'{"crc":"%08x",%s' % (zlib.crc32(body), body[1:])


@pytest.mark.parametrize(
    "body",
    {
        "nested deeply": b'{"v":1,"trace":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "NaN": b'{"v":1,"seconds":[NaN]}',
        "infinity": b'{"v":1,"seconds":[1e999]}',
        "no UTF-8": b'{"v":1,"name":"\xff\xfe"}',
        "a NUL": b'{"v":1,"name":"\0"}',
        "a list": b'["v",1]',
        "no version": b"{}",
        "half": b'{"v":1,"name":"matm',
        "two": b'{"v":1}{"v":1}',
    }.items(),
    ids=lambda item: item[0],
)
def test_json_that_is_no_record_with_a_right_checksum(body):
    assert decode(checked(body[1])) is Fault.DAMAGED


def test_brackets_in_texts_do_not_nest():
    text = '[{\\"' * 200
    record = made(error=text)
    assert decode(encode(record)[:-1]) == record


@pytest.mark.parametrize("version", [0, 2, 99, -1, "1", None, True, 1.0, [1]])
def test_another_version(version):
    assert decode(line_of(data_of(), v=version)) is Fault.UNKNOWN
    assert decode(line_of({"v": version})) is Fault.UNKNOWN


@pytest.mark.parametrize("field", [name for name in data_of() if name != "v"])
def test_a_field_that_is_missing_or_of_another_type(field):
    data = data_of()
    del data[field]
    assert decode(line_of(data)) is Fault.DAMAGED
    for wrong in (True, -1, 1.5, [[]], {"a": 1}, ["a", 1]):
        if field == "trace" and isinstance(wrong, dict):
            continue  # what is in it is looked at when it is applied
        assert decode(line_of({**data, field: wrong})) is Fault.DAMAGED, wrong


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workload": "0123"}, "32 hexadecimal digits, but got workload='0123'"),
        ({"workload": 3}, "32 hexadecimal digits"),
        ({"name": 3}, "text, but got name"),
        ({"target": mt.Target("c")}, "a target with nothing left open"),
        ({"target": "c"}, "a target with nothing left open"),
        ({"trace": {}}, "text, but got trace"),
        ({"seconds": (math.nan,)}, "finite numbers above 0, but got seconds"),
        ({"seconds": (math.inf,)}, "finite numbers above 0"),
        ({"seconds": (0.0,)}, "finite numbers above 0"),
        ({"seconds": (True,)}, "finite numbers above 0"),
        ({"seconds": (10**400,)}, "finite numbers above 0"),
        ({"seconds": 1.0}, "a list"),
        ({"seconds": ()}, "status"),
        ({"status": "not built"}, "status"),
        ({"status": "", "seconds": ()}, "status"),
        ({"host": "here"}, "a Host"),
        ({"seed": -1}, "an integer >= 0"),
        ({"seed": 1.0}, "an integer >= 0"),
        ({"seed": True}, "an integer >= 0"),
        ({"date": "yesterday"}, "a date such as"),
        ({"date": "2025-03-01T12:00:00Z\n"}, "a date such as"),
        ({"flop": -1}, "an integer >= 0"),
    ],
)
def test_fields_that_cannot_be(changes, said):
    with pytest.raises(ArgumentError) as caught:
        made(**changes)
    assert said in str(caught.value)


def test_a_host_that_cannot_be():
    with pytest.raises(ArgumentError, match="flags"):
        Host("a CPU", 2, "cc", ("-O2", 3))
    with pytest.raises(ArgumentError, match="cores"):
        Host("a CPU", -2)


def test_a_record_that_has_no_room_in_a_line():
    room = LONGEST_LINE - len(encode(made(trace='{"x":""}')))
    exact = made(trace=canonical({"x": "x" * room}))
    assert len(encode(exact)) == LONGEST_LINE
    assert decode(encode(exact)[:-1]) == exact
    with pytest.raises(ArgumentError, match="at most 1,048,576 bytes, but this one has 1,048,577"):
        encode(made(trace=canonical({"x": "x" * (room + 1)})))


@pytest.mark.parametrize("trace", ["", "{", "[]", '{"x":NaN}', '{"x":1e999}', "[" * 500])
def test_a_trace_that_is_no_json(trace):
    with pytest.raises(ArgumentError, match=r"not JSON|not finite"):
        encode(made(trace=trace))


# ---- records of searches


def test_a_new_record():
    s = scheduled()
    record = new_record(program(), TARGET, s.trace, seconds=[2e-3, 1e-3], seed=7)
    assert record.status == "ok" and record.error == ""
    assert record.seconds == (2e-3, 1e-3)
    assert record.fastest == 1e-3 and record.median == 1.5e-3
    assert record.gflops == pytest.approx(2 * 8 * 8 * 4 / 1.5e-3 / 1e9)
    assert record.workload == workload_key(program())
    assert record.name == "matmul" and record.seed == 7
    assert record.host.cores >= 1 and record.host.cpu
    assert record.parsed() == s.trace
    assert record.trace_key == trace_key(s.trace)
    assert decode(encode(record)[:-1]) == record


def test_a_new_record_of_a_failure():
    s = scheduled()
    text = "kernel.c:3: error:\tno such thing\x1b[31m\nmore"
    record = new_record(program(), "interpreter", s.trace, status="not built", error=text)
    assert record.error == "kernel.c:3: error: no such thing?[31m"
    assert record.fastest == math.inf and record.gflops is None
    assert record.target == mt.Target("interpreter", num_cores=1, vector_bits=0)
    assert record.host.compiler == "" and record.host.flags == ()
    assert decode(encode(record)[:-1]) == record


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"program": 3}, "a program"),
        ({"trace": "{}"}, "a trace"),
        ({"target": "gpu"}, "target"),
        ({"error": 3}, "text, but got error=3"),
        ({"seconds": [math.nan]}, "finite numbers"),
        ({"seconds": []}, "status"),
    ],
)
def test_what_cannot_be_recorded(given, said):
    words = {"program": program(), "target": TARGET, "trace": mt.Trace(), "seconds": [1.0], **given}
    with pytest.raises(ArgumentError, match=said):
        new_record(**words)


def test_equal_traces_alone_share_a_key():
    s = scheduled()
    assert trace_key(s.trace) == trace_key(mt.Trace.from_json(s.trace.to_json()))
    assert trace_key(s.trace) == trace_key(scheduled().trace)
    shorter = mt.Trace(s.trace.steps[:-1])
    assert trace_key(s.trace) != trace_key(shorter)


def test_records_of_failures_sort_last():
    assert sorted([failed(), made()], key=lambda r: r.fastest) == [made(), failed()]
    assert isinstance(failed(), Record)


# ---- workloads


def test_the_key_of_a_workload_is_what_it_was():
    """Logs of users depend on it: change it only together with the version of the format."""
    assert workload_key(program()) == "d372b92875ecad28093ace4bf9f9da13"


def test_what_is_another_workload():
    def product(a="A", b="B", c="C", i="i", m=8, dtype="float32"):
        A = mt.placeholder((m, 8), dtype, name=a)
        B = mt.placeholder((8, 8), dtype, name=b)
        k = mt.reduce_axis((0, 8), name="k")
        if i == "i":
            C = mt.compute((m, 8), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name=c)
        else:
            C = mt.compute((m, 8), lambda x, j: mt.sum(A[x, k] * B[k, j], axis=k), name=c)
        return mt.lower([A, B, C], name="product")

    different = [
        product(),
        product(m=16),
        product(dtype="float64"),
        product(a="X"),
        product(c="X"),
        product(i="x"),
    ]
    assert len({workload_key(p) for p in different}) == len(different)
    assert workload_key(product()) == workload_key(product())
    assert workload_key(product()) == workload_key(product(m=np.int64(8)))


def test_the_name_of_the_program_is_no_part_of_a_workload():
    assert workload_key(program("one")) == workload_key(program("two"))


def test_names_that_must_not_come_again_are_part_of_a_workload():
    p = program()
    assert workload_key(p) != workload_key(p.replace(retired=frozenset({"i_0"})))


@pytest.mark.slow
def test_a_key_does_not_depend_on_the_process():
    script = (
        "import minitensor as mt; from minitensor.search import workload_key, trace_key;"
        "p = mt.lower(mt.workloads.conv2d(**mt.workloads.WORKLOADS['conv2d'].small));"
        "s = mt.Schedule(p); b = s.get_blocks()[-1]; s.split(s.get_loops(b)[0], [None, 1]);"
        "print(workload_key(p), trace_key(s.trace))"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(keys) == 1
