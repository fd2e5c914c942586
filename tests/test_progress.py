"""Progress is reported to whoever listens, and to nobody else; the time left is right as stated."""

import itertools
import math
import os
import pty
import random
import re
import select
import subprocess
import sys
import time

import numpy as np
import pytest

from midfea import MidFeaClassifier
from midfea.estimators.fitted_classifier import IMAGES_AT_ONCE
from midfea.progress import counting_from, expect, progress_bars, reporting_to, track
from midfea.progress.display import NotebookBar, PlainLines, step_of, time_left
from midfea.progress.remaining import Remaining, State


def test_every_long_step_reports_until_it_is_done(surfaces):
    seen = {}
    with reporting_to(lambda what, done, total: seen.setdefault(what, []).append((done, total))):
        MidFeaClassifier(n_words=20, n_samples=1000, random_state=0).fit(*surfaces)
    assert list(seen) == ["reading", "filters", "describing", "words", "features", "classifier"]
    for steps in seen.values():
        assert steps[0][0] == 0
        assert steps[-1][0] == steps[-1][1]


def test_stopping_early_counts_as_done():
    seen = []
    with reporting_to(lambda what, done, total: seen.append(done)):
        for _ in track(range(10), "work", 10):
            break
    assert seen == [0, 10]


def test_silent_without_a_listener(surfaces, capfd):
    MidFeaClassifier(n_words=20, n_samples=1000, random_state=0, verbose=True).fit(*surfaces)
    assert capfd.readouterr() == ("", "")


def test_blocks_are_counted_among_all_items():
    seen = []
    with reporting_to(lambda what, done, total: seen.append((done, total))):
        for start, size in ((0, 4), (4, 2)):
            with counting_from(start, size, 6):
                list(track(range(size), "one by one", size))
                list(track(range(size // 2), "two at a time", size // 2))
    first, second = [(i, 6) for i in range(5)], [(0, 3), (1, 3), (2, 3)]
    assert seen == [*first, *second, (4, 6), (5, 6), (6, 6), (2, 3), (3, 3)]


# -- the time left --------------------------------------------------------------------------------

# Steps of real trainings, each with its seconds and its parts: `fast` and `best`.
FAST = [("reading files", 0.3, 1000), ("settings", 9, 3), ("filters", 0.6, 1),
        ("describing", 0.5, 1000), ("words", 1.6, 25), ("features", 2.7, 1000),
        ("classifier", 0.7, 10)]  # fmt: skip
BEST = [("reading files", 0.3, 1000), ("settings", 12, 3), ("filters", 0.8, 1),
        ("describing", 0.7, 1000), ("words", 14, 25), ("features", 12, 1000),
        ("classifier", 0.9, 4), ("small images", 1, 1000),
        ("fine-tuning, trial 1", 23, 125), ("fine-tuning, trial 2", 23, 125),
        ("fine-tuning", 91, 500)]  # fmt: skip


def replayed(steps, plan, pauses=0.0):
    """What is said at a hundred moments of such a work: the state, the seconds passed and those left."""
    now = [0.0]
    remaining = Remaining(clock=lambda: now[0])
    remaining.expect(plan)
    moments, said = [], []
    for name, seconds, parts in steps:
        begun = moments[-1][0] + pauses if moments else 0.0
        moments += [(begun + seconds * i / parts, name, i, parts) for i in range(parts + 1)]
    end, coming = moments[-1][0], iter([*moments, (math.inf, "", 0, 0)])
    moment = next(coming)
    for i in range(100):
        while moment[0] <= end * i / 100:
            now[0] = moment[0]
            remaining.report(*moment[1:])
            moment = next(coming)
        now[0] = end * i / 100
        said.append((remaining.state(), now[0], end - now[0]))
    return said


def plan_of(steps):
    return [(name, seconds) for name, seconds, _ in steps]


def times(steps, factor):
    return [(name, factor * seconds, parts) for name, seconds, parts in steps]


@pytest.mark.parametrize("factor", [0.25, 1, 4])
@pytest.mark.parametrize(("steps", "bound"), [(FAST, 1.7), (BEST, 1.2)], ids=["fast", "best"])
def test_the_time_left_is_right_on_slow_and_fast_machines(steps, bound, factor):
    """After a quarter of the time, whatever the machine; it is said from the beginning."""
    said = replayed(times(steps, factor), plan_of(steps))
    assert all(state.seconds_left is not None for state, _, _ in said)
    for state, _, left in said[25:95]:
        assert left / bound < state.seconds_left < bound * left


def test_the_time_left_survives_wrong_plans():
    """Each step's seconds wrong by up to three, the machine's by up to four."""
    chance, errors = random.Random(0), []
    for _ in range(40):
        wrong = [(name, seconds * 3 ** chance.uniform(-1, 1)) for name, seconds in plan_of(BEST)]
        said = replayed(times(BEST, 4 ** chance.uniform(-1, 1)), wrong)
        errors += [abs(math.log(state.seconds_left / left)) for state, _, left in said[20:95]]
    half, most = np.exp(np.quantile(errors, [0.5, 0.9]))
    assert half < 1.2 and most < 2.3


@pytest.mark.parametrize("steps", [FAST, BEST], ids=["fast", "best"])
def test_fractions_never_fall_and_agree_with_the_time_left(steps):
    wrong = [(name, seconds * (5 if i % 2 else 0.2)) for i, (name, seconds) in enumerate(plan_of(steps))]
    said = replayed(steps, wrong, pauses=0.5)
    fractions = [state.fraction for state, _, _ in said]
    assert fractions == sorted(fractions) and fractions[0] == 0 and 0.8 < fractions[-1] < 1
    assert all(state.seconds_left >= 0 for state, _, _ in said)
    right = replayed(steps, plan_of(steps))
    assert all(abs(state.fraction - i / 100) < 0.1 for i, (state, _, _) in enumerate(right))


def test_the_time_left_does_not_jump():
    """With a good plan: by 5 % of the whole at most while a hundredth of it is done."""
    said = replayed(BEST, plan_of(BEST))
    whole = said[0][2]
    for (before, _, _), (after, _, _) in itertools.pairwise(said):
        assert abs(before.seconds_left - after.seconds_left) < 0.05 * whole


def test_steps_that_no_plan_knows_do_no_harm():
    extra = [*FAST[:2], ("colours", 1, 1000), *FAST[2:5], ("leaving classes out", 2, 5), *FAST[5:]]
    missing = [("never begun", 3.0), *plan_of(FAST)]
    for state, _, left in replayed(extra, missing)[20:80]:
        assert left / 2.5 < state.seconds_left < 2.5 * left
    assert "Colours" in {state.step for state, _, _ in replayed(extra, missing)}


def test_steps_inside_a_step_do_not_count_as_later_ones():
    """A model is fitted in each part of a step; its steps have a plan of their own."""
    now = [0.0]
    remaining = Remaining(clock=lambda: now[0])
    with reporting_to(remaining.report, remaining.expect):
        for i in track(range(3), "methods", 3):
            expect(lambda: plan_of(FAST))
            for name, seconds, _ in FAST:
                for _ in track(range(10), name, 10):
                    now[0] += seconds / 10
                    state = remaining.state()
                    left = 3 * sum(seconds for _, seconds, _ in FAST) - now[0]
                    assert (state.step, state.done, state.total) == ("Comparing methods", i, 3)
                    assert 0.6 * left - 1 < state.seconds_left < 1.7 * left + 1
    assert remaining.state().done == 3


def test_of_many_images_their_number_in_a_second_is_told():
    now = [0.0]
    remaining = Remaining(clock=lambda: now[0])
    remaining.report("extracting", 0, 1000)
    assert step_of(remaining.state()) == "Computing features 0/1000"
    now[0] = 4.0
    remaining.report("extracting", 250, 1000)
    assert step_of(remaining.state()) == "Computing features 250/1000, 62 images/s"
    assert remaining.state().seconds_left == pytest.approx(12)


def test_without_a_plan_the_present_step_is_told():
    now = [0.0]
    remaining = Remaining(clock=lambda: now[0])
    assert remaining.state() == State("Starting", 0, 0, 0.0, None)
    remaining.report("reading files", 0, 50)
    assert remaining.state().seconds_left is None
    now[0] = 10.0
    remaining.report("reading files", 10, 50)
    assert remaining.state() == State("Reading images", 10, 50, 0.2, pytest.approx(40))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, ""), (0, "a few seconds left"), (23, "about 25 s left"), (50, "about 50 s left"),
     (55, "about 1 min left"), (110, "about 2 min left"), (6000, "about 1.5 h left")],
)  # fmt: skip
def test_the_time_left_in_words(seconds, words):
    assert time_left(seconds) == words


# -- what people see --------------------------------------------------------------------------------


def test_lines_without_a_terminal_come_now_and_then(capsys):
    """None in the first seconds, then one at a new step and every ten seconds."""
    now = [0.0]
    lines = PlainLines(clock=lambda: now[0])
    steps = [("Learning filters", 4), ("Learning words", 12), ("Computing features", 24)]
    for name, until in steps:
        while now[0] < until:
            lines.show(State(name, 0, 0, now[0] / 24, 24 - now[0]))
            now[0] += 0.25
    lines.show(State("Fitting the classifier", 3, 10, 0.99, None))
    out, said = capsys.readouterr()
    assert out == ""
    assert said.splitlines() == [
        "midfea: learning words, 20 %, about 20 s left",
        "midfea: computing features, 50 %, about 10 s left",
        "midfea: computing features, 91 %, a few seconds left",
    ]


WORK = """
import sys, time
from midfea.progress import expect, progress_bars, track

with progress_bars():
    expect(lambda: [("reading files", 0.5), ("words", 2.0)])
    for name in ("reading files", "words"):
        for i in track(range(10), name, 10):
            time.sleep(0.1)
            if i == 5 and name == "words":
                print("midfea: a warning", file=sys.stderr)
print("the result")
"""


def test_short_work_says_nothing_without_a_terminal():
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("the result\n", "midfea: a warning\n")


def test_work_goes_on_when_nobody_listens_any_more():
    """Standard error is a pipe whose other end was closed, or is closed itself."""
    long = WORK.replace(
        "import sys", "import midfea.progress.display as d; d.QUIET_SECONDS = 0; import sys"
    )
    reading, writing = os.pipe()
    os.close(reading)
    quiet = long.replace('print("midfea: a warning", file=sys.stderr)', "pass")
    for errors in ({"stderr": writing}, {"preexec_fn": lambda: os.close(2)}):
        done = subprocess.run(
            [sys.executable, "-c", quiet], stdout=subprocess.PIPE, text=True, check=False, **errors
        )
        assert done.stdout == "the result\n"
    os.close(writing)


def test_a_terminal_of_80_columns_has_one_line():
    """It changes in place, stays above nothing, and is gone at the end; warnings stand above it."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-c", WORK], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    while process.poll() is None or select.select([ours], [], [], 0.2)[0]:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
    os.close(ours)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    frames = [line.strip() for line in re.split(r"[\r\n]+", text) if "left" in line]
    assert len(frames) > 3 and max(map(len, frames)) <= 80
    assert any(re.match(r"Reading images \d+/10 .* \d+ %  a few seconds left", f) for f in frames)
    assert any(re.match(r"Learning words .* \d+ %  a few seconds left", f) for f in frames)
    assert "midfea: a warning" in text and "-:--" not in text
    assert text.rstrip().endswith("the result")


def test_a_notebook_has_one_output_that_changes():
    pytest.importorskip("IPython", reason="IPython is not installed")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    InteractiveShell.instance()  # else there is no display
    with capture_output() as captured:
        bar = NotebookBar()
        time.sleep(0.6)
        for i in range(3):
            bar.show(State("Learning <words>", i, 3, i / 3, 50.0))
        bar.close(done=True)
    outputs = captured.outputs
    assert [output.update for output in outputs] == [False, True, True, True]
    assert len({output.transient["display_id"] for output in outputs}) == 1
    assert outputs[1].data["text/plain"] == "Learning <words> 1/3  33 %  about 50 s left"
    assert "&lt;words&gt;" in outputs[1].data["text/html"]
    assert outputs[-1].data["text/plain"] == "Done in 1 s"


def test_bars_do_not_nest(capfd):
    """The bar of a command is the bar of the models that it fits."""
    with progress_bars():
        seen = []
        with reporting_to(lambda *report: seen.append(report)), progress_bars():
            list(track("ab", "work", 2))
    assert seen == [("work", 0, 2), ("work", 1, 2), ("work", 2, 2)]


def test_fitting_says_what_is_to_come(surfaces):
    """Every step of the plan comes, in its order, and no other; the linear head is not reported."""
    plans, seen = [], {}
    with reporting_to(lambda what, done, total: seen.setdefault(what, done), plans.append):
        MidFeaClassifier(preset="fast", n_words=20, n_samples=1000, random_state=0).fit(*surfaces)
    names = [name for name, _ in plans[0]]
    assert [name for name in names if name != "linear head"] == list(seen)
    assert len(plans) == 1 and all(seconds > 0 for _, seconds in plans[0])


def test_many_images_are_predicted_under_one_count(surfaces):
    model = MidFeaClassifier(n_words=20, n_samples=600, n_components=40, random_state=0).fit(*surfaces)
    images = [surfaces[0][0][:40, :40]] * (IMAGES_AT_ONCE + 2)
    seen = []
    with reporting_to(lambda what, done, total: seen.append((what, done, total))):
        model.predict(images)
    assert seen[-1] == ("features", len(images), len(images))
    assert {total for what, _, total in seen if what == "features"} == {len(images)}
