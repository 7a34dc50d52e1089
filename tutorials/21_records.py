# %% [markdown]
# # Records: resuming a search, loading its result, explaining it
#
# **You will be able to** read a log of a search line by line, find the best record in a damaged
# file, stop a search and go on, load a schedule another day, and say why a log is data and never
# code.
#
# A search takes an hour. Then the lid of the laptop closes, the disk is full, or someone presses
# Ctrl-C. What is left? This lesson is about a text file, in which each candidate that was tried is
# one line. With it a search can stop at any moment, and everything that it paid for is kept.

# %%
import json
import pathlib
import statistics
import tempfile
import zlib

import numpy as np

import minitensor as mt
from minitensor import pictures
from minitensor.search import FEATURE_NAMES, Log, Result, Status, extract_features
from minitensor_course import picture, table
from minitensor_course.replay import replay

# %% [markdown]
# ## A search that is stopped
#
# The program is a product of small matrices, and the space a *template*: a function that makes a
# schedule, with decisions in it that are left open. Here they are two tiles.

# %%
program = mt.lower(mt.workloads.matmul(m=32, n=32, k=32), name="product")
target = mt.Target("c", num_cores=2, vector_bits=256)


def tiles(s):
    """A template: tiles of i and j, with all of k for each tile."""
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, s.sample_perfect_tile(i, 2))
    j_0, j_1 = s.split(j, s.sample_perfect_tile(j, 2))
    s.reorder(i_0, j_0, k, i_1, j_1)


# %% [markdown]
# Something has to say what a schedule costs. Usually a *runner* does, which builds and times it. To
# have the same numbers everywhere we count in its place: the cache lines that all accesses load, at
# a nanosecond each. And this one presses Ctrl-C after a number of schedules.

# %%
LINES = [FEATURE_NAMES.index(f"buffer {n} lines") for n in (1, 2, 3)]


class Counting:
    """A source of costs that stops the search after so many schedules."""

    def __init__(self, most):
        self.left = most

    def measure(self, schedules, best=None):
        """The cost of each schedule."""
        for s in schedules:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            row = extract_features(s.program, target)[0]
            lines = round(sum(2 ** float(row[n]) - 1 for n in LINES))
            yield Result(Status.OK, (lines * 1e-9,))


folder = pathlib.Path(tempfile.mkdtemp())
path = folder / "search.jsonl"


def search(most, trials=12):
    """A search with this log, as far as it comes."""
    runner = Counting(most)
    return mt.tune(
        program,
        target,
        trials,
        log=path,
        space=tiles,
        strategy="random",
        runner=runner,
        progress=False,
    )


result = search(most=5)
print("interrupted:", result.interrupted, " tried:", len(result.tried), "of 12")
assert result.interrupted and len(result.tried) == 5

# %% [markdown]
# ## What is in the file
#
# One JSON object a line ("JSON lines"). The first line is the definition of the program, as Python
# text; each other line is a *record* of one candidate. Here are the most important fields of one.

# %%
lines = path.read_text(encoding="ascii").splitlines()
record = json.loads(lines[1])
for field in ("status", "seconds", "target", "workload", "seed", "v", "crc"):
    print(f"{field:10}", record[field])
for step in record["trace"]["steps"][:2]:
    print(step["primitive"], step["arguments"])
assert len(lines) == 1 + 5 and "definition" in json.loads(lines[0])

# %% [markdown]
# - `trace`: the steps of the schedule with the decisions that were taken. Not the C code, and not
#   the loops: who has the definition and the steps can make all the rest again.
# - `workload`: a digest of the definition (shapes, dtypes, loops, names). A record of another
#   program says nothing about this one, however fast it is.
# - `target`: what was built for. The best schedule for 2 cores is not that for 64.
# - `status`: "ok", or how it failed. Failures are kept: a search must not try them again.
# - `seconds`: one number for each repeat. Their median ranks, for a single repeat may be lucky.
# - `crc`: a *checksum* of the rest of the line. If a byte is lost or changed, it does not fit.


# %%
def is_whole(line):
    """Test the checksum of a line: over all of it, but for the checksum itself."""
    head, _, rest = line.partition(",")
    return head == f'{{"crc":"{zlib.crc32(("{" + rest).encode()):08x}"'


assert all(is_whole(line) for line in lines)
assert not is_whole(lines[1].replace("i_0", "i_9"))

# %% [markdown]
# ## Killed in the middle of a line
#
# **Predict first.** A process is killed while it writes: half of a line is at the end of the file,
# and no newline. Then another process appends a record. How many records can be read: one fewer
# than were written, none behind the damage, or all that were acknowledged?

# %%
log = Log(path)
before, _ = log.read()
with path.open("a") as file:
    file.write(lines[2][:40])  # the process dies here
log.append(before[0])  # another one goes on
records, report = log.read()
print(len(records), "records,", report.torn, "torn line:", path.read_text().splitlines()[6][:50])
assert len(records) == 6 and report.torn == 1

# %% [markdown]
# All of them. `append` saw that the file does not end with a newline, ended the torn line with a
# mark, and wrote its own record on a new line. A reader takes each line for itself: what is damaged
# is counted and skipped, with a warning. This is why the format has no header, no index and no
# closing bracket: there is nothing that one crash could break for all.
#
# ## The best of a log
#
# As plain Python, with what was said above: whole lines, this workload, a success, the least
# median.


# %%
def best_line(lines, workload):
    """The record of a workload with the least median; None if there is none."""
    found = [json.loads(line) for line in lines if is_whole(line)]
    found = [one for one in found if one["v"] == 1 and one["workload"] == workload]
    working = [one for one in found if one["status"] == "ok"]
    return min(working, key=lambda one: statistics.median(one["seconds"]), default=None)


ours = best_line(path.read_text().splitlines(), record["workload"])
theirs = log.best(program, target)
assert ours["seconds"] == list(theirs.seconds) and theirs.workload == record["workload"]
print(f"the best of {len(records)}: {theirs.median * 1e9:.0f} lines")

# %% [markdown]
# ## Going on
#
# The same call again goes on. What is in the log is taken over, and counts as tried: of twelve
# trials seven are left. (At the end a search compares its fastest few once more, in turns, so the
# source is asked more often than that.)

# %%
result = search(most=100)
known = [one.known for one in result.tried]
print("tried:", len(known), " known before:", sum(known))
assert sum(known) == 5 and len(known) == 12 and not result.interrupted
keys = [one.key for one in result.tried]
assert len(set(keys)) == 12  # nothing was tried twice

# %% [markdown]
# Two things make this work. Whatever a search draws depends on the seed and on what was tried
# before, and on nothing else; and a candidate is known by its trace, which is in the log.
#
# ## Another day
#
# A new process needs the definition and the file. `mt.load_best` finds the fastest record for this
# workload and target, and applies its steps to the definition. Before, and after:

# %%
print(program)
schedule = mt.load_best(path, program, target)
schedule.show()
print(schedule.trace.as_python())


# %%
def product(a, b, rows, columns):
    """The loops of the schedule, by hand."""
    c = np.zeros((32, 32), "float32")
    for i_0 in range(32 // rows):
        for j_0 in range(32 // columns):
            for k in range(32):
                for i in range(i_0 * rows, (i_0 + 1) * rows):
                    for j in range(j_0 * columns, (j_0 + 1) * columns):
                        c[i, j] += a[i, k] * b[k, j]
    return c


a, b = (np.random.default_rng(seed).integers(-3, 4, (32, 32)).astype("float32") for seed in (0, 1))
rows, columns = (d[1] for d in schedule.trace.decisions.values())
assert np.array_equal(product(a, b, rows, columns), mt.interpret(schedule, a, b))

# %% [markdown]
# `with mt.apply_history_best(path): ...` does the same for every program that is built inside. And
# a log of *other* programs is of use, too: `mt.tune(..., history=[path])` learns a first cost model
# from it, which knows nothing of this program and much of programs like it. That is called
# *transfer*. The definition is in the log for this purpose.
#
# ## Data, and never code
#
# A log comes from a colleague, or from the network. Python's `pickle` would be a short way to store
# objects. But a pickle is a program: whoever loads it runs what its author wanted. JSON can only
# say numbers, texts, lists and objects. And a trace that is read is not believed: each step goes
# through the same checks as a call of yours. Let us forge a record that is faster than all: it
# reorders loops that do not exist.

# %%
forged = json.loads(lines[1])
del forged["crc"]
forged["seconds"] = [1e-12]
forged["trace"]["steps"][-1]["arguments"]["loops"] = ["i_7", "j_0"]
body = json.dumps(forged, sort_keys=True, separators=(",", ":"))
with path.open("a") as file:
    file.write(f'{{"crc":"{zlib.crc32(body.encode()):08x}",{body[1:]}\n')

assert log.best(program, target).median == 1e-12  # the line is whole, and believed as a number
again = mt.load_best(path, program, target)  # a warning, and the next best
assert str(again.program) == str(schedule.program)

# %% [markdown]
# ## Explaining a result
#
# `result.explain()` puts together what a log and a search know: how fast, what limits it, which
# decisions, how many failed and why, and where the time went. Here is the part about decisions.

# %%
text = result.explain()
print(text[text.index("its decisions") : text.index("what the model learnt")])

# %% [markdown]
# The *curve* of a search is the best time so far, after each trial. It says whether it pays to go
# on: a curve that has been flat for long is a reason to stop. This one is of a table of measured
# costs.

# %%
tried = replay(table("conv-1x1"), "random", trials=48, seed=1).tried
times = [one.seconds * 1e3 for one in tried]
so_far = [min(times[: n + 1]) for n in range(len(times))]
assert so_far == np.minimum.accumulate(times).tolist()
chart = pictures.Chart(pictures.Axis(0, 48, "trials"), pictures.Axis(0, 8, "milliseconds"))
chart.points([(n + 1, t) for n, t in enumerate(times)], "grey", "each candidate")
chart.line([(n + 1, t) for n, t in enumerate(so_far)], "blue", "best so far")
drawn = chart.picture("curve", "The curve of a search", "Each candidate, and the best so far.")

# %%
picture("21_curve", drawn)

# %% [markdown]
# ## Pitfalls
#
# - The least of all repeats is not the best record: one repeat may be lucky. Compare medians.
# - A record of another workload or target may be faster, and is of no use. Check both.
# - JSON as Python reads it knows `NaN` and `Infinity`. A comparison with NaN is always false, so a
#   record with it may win or lose by its place in the file. Times are finite and above 0.
# - A search that goes on with another seed, or with another number of trials in a round, is another
#   search. It will still try nothing twice.
#
# ## Tasks
#
# Write these functions in `21_tasks.py`, and let `minitensor course check 21` judge them. The lines
# of the tasks have no checksum: a damaged one is no JSON object, or lacks a field.
#
# 1. `best(lines, workload)`: the place of the best record in the lines of a log.
# 2. `resume(lines, workload, trials)`: how many trials are left, and what is known.
# 3. `curve(seconds)`: the best so far after each trial, where some failed.
#
# ## Sources
#
# - L. Zheng et al., "Ansor: generating high-performance tensor programs for deep learning", OSDI
#   2020, section 3: a search whose measurements are its training data.
# - T. Chen et al., "Learning to optimize tensor programs", NeurIPS 2018, section 4: transfer from
#   the history of other workloads.
# - The Python documentation of `pickle`, whose first section says that it is not secure.
