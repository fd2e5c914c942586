"""What damaged files, hostile input and kill -9 do to midfea, beside other programs.

    python benchmarks/reliability.py [--only flips peers-models peers-images kills fuzz load mutants]
        [--minutes 1] [--quick] [--table] [--json benchmarks/reliability.json]

Without --only the sections that the file does not have yet. Each section's rows are stored at its end.
A peer that is not installed is named and left out: pip install skops opencv-python-headless scikit-image
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "fuzz"))
import reliability_readers as readers
from common import make_parser
from guarded import Guarded, count
from midfea.provenance import about, write_rows

Row = dict[str, Any]
SEED = 0
ROWS = Path(__file__).with_name("reliability.json")
NEEDED = {"skops": "skops", "opencv": "cv2", "scikit-image": "skimage", "onnxruntime": "onnxruntime"}


def main() -> None:
    parser = make_parser(__doc__, needs_data=False)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION")
    parser.add_argument("--minutes", type=float, default=1.0, help="of each harness, section fuzz")
    parser.add_argument("--quick", action="store_true", help="a tenth of the files and kills")
    parser.add_argument("--json", type=Path, default=ROWS)
    parser.add_argument("--table", action="store_true", help="print the rows as Markdown, run nothing")
    given = parser.parse_args()
    if given.table:
        print_tables(json.loads(given.json.read_text()))
        return
    rows = json.loads(given.json.read_text()) if given.json.exists() else []
    done = {row["section"] for row in rows}
    for name in given.only or [name for name in SECTIONS if name not in done]:
        print(f"-- {name}", flush=True)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            os.environ[readers.FOLDER] = folder
            made = SECTIONS[name](Path(folder), 10 if given.quick else 1, given.minutes)
        origin = {"about": about([SEED])}
        rows = [row for row in rows if row["section"] != name]
        rows += [{"section": name, **row, **origin} for row in made]
        write_rows(rows, given.json, [SEED])
        print(f"   {time.monotonic() - begun:.0f} s", flush=True)


def print_tables(rows: list[Row]) -> None:
    """A Markdown table for each section; special files have a column for each reader."""
    for section in SECTIONS:
        mine = [row for row in rows if row["section"] == section]
        special = [row for row in mine if "special" in row]
        _print_table(section, [row for row in mine if row not in special])
        by_file: dict[str, Row] = {}
        for row in special:
            cell = f"{row['outcome']}, {row['seconds']} s, {row['peak MB']} MB"
            by_file.setdefault(row["special"], {"file": row["special"]})[row["reader"]] = cell
        _print_table(f"{section}, special files", list(by_file.values()))


def _print_table(title: str, rows: list[Row]) -> None:
    if not rows:
        return
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in ("section", "about")))
    lines = [columns, ["---"] * len(columns)]
    lines += [[str(row.get(column, "")).replace("|", "/") for column in columns] for row in rows]
    commits = sorted({row["about"]["commit"][:7] for row in rows if "about" in row})
    print(f"\n**{title}**" + (f" (commit {', '.join(commits)})" if commits else "") + "\n")
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))


# -- models ---------------------------------------------------------------------------------------


def flips(folder: Path, part: int, _: float) -> list[Row]:
    """One bit flipped in a model file, and in an exported file."""
    _make_models(folder)
    rows = []
    for name, make in (("whole.midfea", readers.midfea_model), ("whole.onnx", readers.midfea_onnx)):
        paths = _damaged(folder / name, 1000 // part, flips_only=True)
        counts, _ = count(make, paths)
        rows.append(_told({"file": name.partition(".")[2], "flips": 1000 // part, **counts}))
    return rows


def peers_models(folder: Path, part: int, _: float) -> list[Row]:
    """Damaged files of a fitted classifier, as other programs save it."""
    _make_models(folder)
    _make_svms(folder)
    rows = []
    for name, (file, make) in readers.MODEL_READERS.items():
        if _is_missing(name):
            continue
        paths = _damaged(folder / file, 200 // part, flips_only=False)
        counts, _ = count(make, paths)
        rows.append(_told({"reader": name, "files": 200 // part, **counts}))
    return rows


def _make_models(folder: Path) -> None:
    from midfea import MidFeaClassifier
    from midfea.datasets import load_surfaces
    from midfea.export import write_onnx

    data = load_surfaces(n_per_class=20, random_state=SEED)
    model = MidFeaClassifier(preset="fast", random_state=SEED, n_jobs=1)
    model.fit(data.images, np.array(data.target_names)[data.target])
    model.save(folder / "whole.midfea")
    write_onnx(model, folder / "whole.onnx")
    np.save(folder / "images.npy", np.stack(data.images[::20]).astype(np.uint8))
    np.save(folder / "features.npy", model.features(data.images))
    np.save(folder / "target.npy", data.target)


def _make_svms(folder: Path) -> None:
    """One LinearSVC in the files of the peers."""
    import joblib
    from safetensors.numpy import save_file
    from sklearn.svm import LinearSVC

    features = np.load(folder / "features.npy")
    svm = LinearSVC(random_state=SEED).fit(features, np.load(folder / "target.npy"))
    arrays = {"coef": svm.coef_.astype(np.float32), "intercept": svm.intercept_.astype(np.float32)}
    (folder / "svm.pickle").write_bytes(pickle.dumps(svm))
    joblib.dump(svm, folder / "svm.joblib")
    save_file(arrays, folder / "svm.safetensors")
    (folder / "svm.onnx").write_bytes(_onnx_of(arrays))
    if importlib.util.find_spec("skops"):
        import skops.io

        skops.io.dump(svm, folder / "svm.skops")


def _onnx_of(arrays: dict[str, Any]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node("Gemm", ["x", "coef", "intercept"], ["scores"], transB=1)
    n_classes, n_features = arrays["coef"].shape
    graph = helper.make_graph(
        [node],
        "svm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, n_features])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, n_classes])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString())


def _damaged(whole: Path, n: int, flips_only: bool) -> Any:
    """Damaged copies, one after the other; every second one has more than a flipped bit."""
    from mutate import flipped, mutated

    content, chosen = whole.read_bytes(), random.Random(SEED)
    path = whole.with_name(f"damaged{whole.suffix}")
    for i in range(n):
        damaged = content
        while damaged == content:
            damaged = flipped(chosen, content) if flips_only or i % 2 else mutated(chosen, content)
        path.write_bytes(damaged)
        yield path


# -- images ---------------------------------------------------------------------------------------


def peers_images(folder: Path, part: int, _: float) -> list[Row]:
    """Damaged and hostile image files."""
    paths, special = _damaged_images(folder, 300 // part), _special_images(folder)
    rows = []
    for name, make in readers.IMAGE_READERS.items():
        if _is_missing(name):
            continue
        counts, peak = count(make, paths)
        rows.append(_told({"reader": name, "files": len(paths), **counts, "peak MB": round(peak)}))
        for path in special:
            with Guarded(make) as guarded:
                begun = time.monotonic()
                answer = guarded.ask(path)
                seconds = round(time.monotonic() - begun, 2)
            row = {"reader": name, "special": path.name, "outcome": answer.outcome}
            rows.append(_told({**row, "peak MB": round(answer.peak), "seconds": seconds}))
    return rows


def _damaged_images(folder: Path, n: int) -> list[Path]:
    from PIL import Image

    from harnesses.images import other_files, plain_files
    from mutate import mutated

    files, chosen, paths = [*plain_files(), *other_files()], random.Random(SEED), []
    for i in range(n):
        whole = chosen.choice(files)
        ending = str(Image.open(io.BytesIO(whole)).format).lower()
        ending = {"jpeg2000": "j2k" if whole.startswith(b"\xff\x4f") else "jp2"}.get(ending, ending)
        paths.append(folder / f"{i}.{ending}")
        paths[-1].write_bytes(mutated(chosen, whole, files))
    return paths


def _special_images(folder: Path) -> list[Path]:
    """PostScript by another name, large images in small files, a JPEG of many scans, missing pixels."""
    from PIL import Image

    from make_corpus import png_of, scans_of

    contents = {
        "postscript.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n{ } loop\n",
        "3600_megapixels.png": png_of(60_000, 60_000, 9),
        "169_megapixels.png": png_of(13_000, 13_000, 13_000),
        "5000_scans.jpg": scans_of(2000, 5000),
    }
    for name, value in (("nan.tif", np.nan), ("missing.tif", -3.4028235e38)):
        pixels = np.full((40, 40), 9, dtype=np.float32)
        pixels[:9] = value
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "TIFF")
        contents[name] = file.getvalue()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


# -- kill -9, fuzzing -----------------------------------------------------------------------------


def kills(folder: Path, part: int, _: float) -> list[Row]:
    """A hundred of them."""
    from reliability_kills import kills as all_kills

    numbers = [max(1, n // part) for n in (64, 10, 16, 10)]
    return [_told(row) for row in all_kills(folder, *numbers)]


def fuzz(folder: Path, part: int, minutes: float) -> list[Row]:
    """Every harness for some minutes."""
    from harness import NAMES
    from runner import Plan, run

    rows = []
    for name in NAMES:
        outcome = run(Plan(name, SEED, seconds=60 * minutes / part))
        found = [f"{each.case} {each.last_line}" for each in outcome.findings]
        rows.append(
            _told(
                {
                    "harness": name,
                    "cases": outcome.cases,
                    "seconds": round(outcome.seconds, 1),
                    "findings": found,
                }
            )
        )
    return rows


def _is_missing(name: str) -> bool:
    missing = name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None
    if missing:
        print(f"   {name} is not installed: left out")
    return missing


def _told(row: Row) -> Row:
    print("   " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def load(folder: Path, part: int, _: float) -> list[Row]:
    """Thirty clients for thirty minutes."""
    import reliability_load

    return [_told(row) for row in reliability_load.load(folder / "workspace", 1800 / part)]


def mutants(folder: Path, part: int, _: float) -> list[Row]:
    """Safeties taken away one at a time: how many of them the tests notice."""
    file, tool = folder / "mutants.json", Path(__file__).resolve().parents[1] / "tools/mutants.py"
    subprocess.run([sys.executable, str(tool), "--json", str(file)], check=False)
    return count_mutants(json.loads(file.read_text()))


def count_mutants(rows: list[Row]) -> list[Row]:
    """Numbers of each area, from the rows of tools/mutants.py."""
    areas: dict[str, Counter[str]] = {}
    for row in rows:
        areas.setdefault(row["area"], Counter())[row["result"]] += 1
    return [_told({"area": area, "mutants": n.total(), **n}) for area, n in sorted(areas.items())]


SECTIONS: dict[str, Callable[[Path, int, float], list[Row]]] = {
    "flips": flips,
    "peers-models": peers_models,
    "peers-images": peers_images,
    "kills": kills,
    "fuzz": fuzz,
    "load": load,
    "mutants": mutants,
}

if __name__ == "__main__":
    main()
