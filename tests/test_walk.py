"""An image is decoded once and its features are computed once, whatever is asked."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import midfea
from midfea.datasets import load_surfaces
from midfea.datasets.folder import read_photos
from midfea.engines.cpu.engine import CpuChain
from midfea.learning.extractor import FeatureExtractor

OLD = Path(__file__).parent / "data"


@pytest.fixture
def counts(monkeypatch):
    """How often files are decoded and chains with a codebook are walked; nothing is changed."""
    found = {"decoded": 0, "coded": 0, "prepared": 0}
    decode, encode, prepare = Image.open, CpuChain.encode, CpuChain.__init__

    def counting_decode(*given, **more):
        found["decoded"] += 1
        return decode(*given, **more)

    def counting_encode(self, descriptors):
        found["coded"] += 1
        return encode(self, descriptors)

    def counting_prepare(self, chain, projection=None):
        found["prepared"] += chain.codebook is not None
        prepare(self, chain, projection)

    monkeypatch.setattr(Image, "open", counting_decode)
    monkeypatch.setattr(CpuChain, "encode", counting_encode)
    monkeypatch.setattr(CpuChain, "__init__", counting_prepare)
    return found


@pytest.fixture
def files(tmp_path):
    drawn = load_surfaces(n_per_class=1, size=64, random_state=1).images[:3]
    for i, pixels in enumerate(drawn):
        Image.fromarray(np.stack([pixels, pixels // 2, pixels], axis=2)).save(tmp_path / f"{i}.png")
    return [tmp_path / f"{i}.png" for i in range(3)]


@pytest.mark.parametrize("name", ["fast", "finetuned"])
def test_predict(counts, files, name):
    midfea.load(OLD / f"{name}-v1.midfea").predict_proba(files)
    assert counts == {"decoded": 3, "coded": 3, "prepared": 1}


@pytest.mark.parametrize("name", ["fast", "finetuned"])
def test_the_command_reads_pictures(counts, files, name):
    model = midfea.load(OLD / f"{name}-v1.midfea")
    photos, _ = read_photos(files, model.max_side, model.min_side, rounded=model.rounded)
    seen = model.predict_proba([photo.picture for photo in photos])
    assert counts == {"decoded": 3, "coded": 3, "prepared": 1}
    np.testing.assert_array_equal(seen, model.predict_proba(files))


@pytest.mark.parametrize("name", ["fast", "finetuned"])
def test_why(counts, files, name):
    model = midfea.load(OLD / f"{name}-v1.midfea")
    explanation = model.explain(files[0])
    assert counts == {"decoded": 1, "coded": 1, "prepared": 1}
    np.testing.assert_array_equal(explanation.features, model.features(files[:1])[0])


def test_fit_decodes_each_file_once(counts, tmp_path):
    drawn = load_surfaces(n_per_class=6, size=64, random_state=1)
    for i, pixels in enumerate(drawn.images):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
    files = [tmp_path / f"{i}.png" for i in range(len(drawn.images))]
    model = midfea.MidFeaClassifier(preset="fast", n_words=20, n_samples=2000, random_state=0)
    model.fit(files, drawn.target)
    assert counts["decoded"] == len(files)


def test_threads_prepare_a_chain_once(counts, files):
    model = midfea.load(OLD / "fast-v1.midfea")
    model.set_params(n_jobs=4).predict(files * 4)
    assert counts["prepared"] == 1
    engine = replace(model.extractor_.engine, name="reference")
    assert isinstance(model.extractor_.on(engine), FeatureExtractor)
    assert model.extractor_.on(model.extractor_.engine) is model.extractor_
