"""The paper's own data, where MIDFEA_DATA names the folder that holds it; see README."""

import numpy as np
import pytest
from PIL import Image

from midfea import MidFea, MidFeaClassifier
from midfea.engines import EngineSettings
from midfea.learning.choices import Trials
from midfea.learning.ns_layer import centred
from midfea.learning.selectivity.objective import Weights, class_blocks, objective_terms
from midfea.learning.selectivity.rounds import Settings, rounds
from midfea.learning.selectivity.start import make_start
from midfea.pictures.images import Images, Pictures

pytestmark = pytest.mark.data
PAPER_FACES = {"n_words": 500, "partition": (3, 3), "projection": None}


def say(capsys, line):
    with capsys.disabled():
        print(f"\n{line}")


def test_ar_faces_session_1_to_session_2(data_dir, capsys):
    """ar/M-001-01.png: gender, person, view; views 1 to 7 are session 1, 14 to 20 session 2."""
    paths = np.array(sorted((data_dir / "ar").glob("*.png")))
    people = np.array([path.name[:5] for path in paths])
    first = np.array([int(path.name[6:8]) <= 7 for path in paths])
    accuracies = []
    for seed in range(3):
        model = MidFeaClassifier(**PAPER_FACES, random_state=seed)
        model.fit(list(paths[first]), people[first])
        accuracies.append(model.score(list(paths[~first]), people[~first]))
    mean, deviation = np.mean(accuracies), np.std(accuracies)
    say(capsys, f"AR faces, session 1 to 2, 3 seeds: {mean:.1%} (deviation {deviation:.1%})")
    assert mean >= 0.965


def test_settings_that_suit(data_dir):
    """Aligned faces want many cells and no floor, sign digits on a flat ground a floor."""
    faces = sorted((data_dir / "ar").glob("*-0[1-7].png"))
    digits = sorted((data_dir / "sign_digits").glob("*/*"))[::4]
    settings = MidFeaClassifier(preset="fast").chain_settings()
    choices = []
    for images, labels, people in (
        (faces, [path.name[0] for path in faces], [path.name[:5] for path in faces]),  # gender
        (faces, [path.name[:5] for path in faces], None),
        (digits, [path.parent.name for path in digits], None),
    ):
        y = np.unique(labels, return_inverse=True)[1]
        groups = None if people is None else np.unique(people, return_inverse=True)[1]
        pictures = Pictures(Images(images), settings.max_side)
        weights = np.ones(len(np.unique(y)), dtype=np.float32)
        choices.append(Trials(pictures, y, groups, EngineSettings(), 2, 0, weights).choose(settings))
    gender, faces_choice, _ = (choice.settings for choice in choices)
    assert (faces_choice.floor, faces_choice.partition) == (0.0, (6, 6))
    assert gender.floor == 0.0  # both partitions are about as good
    # The same people, seen again, lie in place.
    assert [choice.in_place for choice in choices] == [False, True, False]
    assert choices[2].settings.floor == 0.5


@pytest.mark.parametrize("name", ["ar", "caltech101"])
def test_no_step_of_the_neuron_selectivity_layer_raises_its_objective(data_dir, name):
    """On features of 100 people's faces, and of 102 classes of things: after each update of a block."""
    if name == "ar":
        paths = sorted((data_dir / "ar").glob("*-0[1-7].png"))
        labels = [path.name[:5] for path in paths]
    else:
        folders = sorted((data_dir / "caltech101" / "101_ObjectCategories").iterdir())
        paths = [path for folder in folders for path in sorted(folder.glob("*.jpg"))[:10]]
        labels = [path.parent.name for path in paths]
    classes = np.unique(labels, return_inverse=True)[1]
    order = np.argsort(classes, kind="stable")
    features = MidFea(**PAPER_FACES, random_state=0).fit_transform(paths)[order]
    columns = centred(features.astype(np.float64), features.mean(axis=0)).T
    blocks = class_blocks(classes[order])
    start = make_start("kmeans", columns, blocks, len(blocks), np.random.RandomState(0))
    weights = Weights(alpha=0.9, beta=0.5, gamma=2.0, lam=0.8)
    values = [sum(objective_terms(columns, blocks, start, weights).values())]
    list(
        rounds(
            columns,
            blocks,
            start,
            weights,
            Settings(max_iter=3, tol=0),
            on_step=lambda block, terms: values.append(sum(terms.values())),
        )
    )
    assert len(values) == 10
    assert (np.diff(values) <= 0).all()
    assert values[-1] < 0.99 * values[0]  # most of it is what one neuron a class cannot reconstruct


def test_extended_yale_b_half_and_half(data_dir, capsys):
    """extended_yale_b/CroppedYale/yaleB01/*.pgm, reduced to 96x84."""
    folders = sorted((data_dir / "extended_yale_b" / "CroppedYale").iterdir())
    paths = [path for folder in folders for path in sorted(folder.glob("*.pgm"))]
    images = np.stack([np.asarray(Image.open(p).resize((84, 96))) for p in paths])
    people = np.array([path.parent.name for path in paths])
    accuracies = []
    for seed in range(3):
        rng = np.random.RandomState(seed)
        train = np.zeros(len(people), dtype=bool)
        for person in np.unique(people):
            members = rng.permutation(np.flatnonzero(people == person))
            train[members[: len(members) // 2]] = True
        # Signed responses, as in `reproduce yale-b`, where validation chose them.
        model = MidFeaClassifier(**PAPER_FACES, rectify=False, random_state=seed)
        model.fit(images[train], people[train])
        accuracies.append(model.score(images[~train], people[~train]))
    mean, deviation = np.mean(accuracies), np.std(accuracies)
    say(capsys, f"Extended Yale B, half/half, 3 splits: {mean:.2%} (deviation {deviation:.2%})")
    assert mean >= 0.993
