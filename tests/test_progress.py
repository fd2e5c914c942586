"""Progress is reported to whoever listens, and to nobody else."""

from midfea import MidFeaClassifier
from midfea.progress import reporting_to, track


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
