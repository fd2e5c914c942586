"""`midfea serve` as its user meets it: a real server, a real Chromium, real files.

MIDFEA_SCREENSHOTS=docs/screenshots writes the pictures of the documentation; else none are written.
"""

import json
import os
import re
import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from midfea import load
from midfea.datasets import load_surfaces
from serving import STRIPES, Server, stripes

SCREENS = ("teach", "classify", "inspect", "take-away")
TRAINED = 60_000  # milliseconds that a training may take


def _need(found, reason):
    """Skip where a part is missing, except in CI, where it must not be."""
    if not found:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _need(False, "playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    _need(path, f"none of {', '.join(names)} is installed")
    camera = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=camera)
        yield chromium
        chromium.close()


class Visit:
    """A page, what went wrong in it unseen, and short words for what a user does."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(accept_downloads=True, **options)
        self.address = address
        self.unseen = []
        self.page = self.open_tab()

    def open_tab(self):
        page = self.context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.unseen.append(str(error)))
        page.on("console", self._heard)
        page.goto(self.address)
        page.wait_for_selector("#workspace-facts:has-text('image')")
        return page

    def _heard(self, message):
        # The browser also reports each refusal of the server, which the page shows to the user.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.unseen.append(message.text)

    def close(self):
        self.context.close()
        assert not self.unseen

    def go(self, screen):
        self.page.click(f"nav a[href='#{screen}']")
        self.page.wait_for_selector(f"#screen-{screen}:visible")

    def drop(self, selector, *paths):
        """Drop files or folders, as a hand does it."""
        target = self.page.locator(selector).first
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        devtools = self.context.new_cdp_session(self.page)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            devtools.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
        devtools.detach()

    def facts(self, text):
        """Wait until the header says this."""
        self.page.wait_for_selector(f"#workspace-facts:has-text('{text}')")

    def card(self, name):
        return self.page.get_by_role("group", name=f"Class {name}", exact=True)

    def train(self):
        self.page.select_option("#preset", "paper")  # the soonest done with a few images
        self.page.click("#train")
        self.page.wait_for_selector("#train-status:has-text('Trained.')", timeout=TRAINED)

    def download(self, title, folder):
        with self.page.expect_download() as waiting:
            self.page.get_by_role("button", name=f"Download: {title}", exact=True).click()
        path = Path(folder) / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path


@pytest.fixture
def visit(browser):
    """visit(address, ...) opens the page; at the end nothing may have gone wrong unseen."""
    opened = []

    def open_page(address, **options):
        opened.append(Visit(browser, address, **options))
        return opened[-1]

    yield open_page
    for each in opened:
        each.close()


def write_photos(folder, classes, n, seed=0):
    """Drawn images of some classes as PNG files, in a folder for each."""
    data = load_surfaces(n_per_class=n, size=64, random_state=seed)
    for i, (image, kind) in enumerate(zip(data.images, data.target, strict=True)):
        name = data.target_names[kind]
        if name in classes:
            (folder / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(image, dtype=np.uint8)).save(folder / name / f"{name}-{i}.png")
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two classes to teach, others of the same kind to ask about."""
    root = tmp_path_factory.mktemp("photos")
    write_photos(root / "taught", ("scratch", "pits"), 14)
    write_photos(root / "new", ("scratch", "pits"), 3, seed=7)
    return root


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """The address of a server with a trained model, for tests that only look, or change little."""
    folder = tmp_path_factory.mktemp("taught") / "surfaces"
    write_photos(folder / "images", ("scratch", "pits", "crack"), 14)
    with Server(folder) as server:
        assert server.train(preset="paper")["state"] == "done"
        yield server.address


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory):
    """A server with a good model, and a few images in a wrong class."""
    folder = tmp_path_factory.mktemp("doubtful") / "stripes"
    files, _ = stripes()
    for label, name, content in files:
        (folder / "images" / label).mkdir(parents=True, exist_ok=True)
        (folder / "images" / label / name).write_bytes(content)
    with Server(folder) as server:
        assert server.train(preset="paper")["state"] == "done"
        yield server


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The address of a server with an empty workspace; each test makes classes with names of its own."""
    with Server(tmp_path_factory.mktemp("fresh") / "empty") as server:
        yield server.address


def the_whole_way(visit, taught, new, workspace, tmp_path):
    """Teach by dropping a folder, ask, correct, teach again, take away, come back."""
    first, second = sorted(path.name for path in taught.iterdir())
    n_taught = sum(1 for path in taught.rglob("*") if path.is_file())
    with Server(workspace) as server:
        user = visit(server.address)
        user.drop("#new-images", taught)
        user.facts(f"2 classes · {n_taught} images · no model yet")
        user.train()
        assert re.fullmatch(r"[\d.]+%", user.page.inner_text(".accuracy"))
        assert "95 % interval" in user.page.inner_text("#result")

        user.go("classify")
        asked = sorted((new / first).iterdir())[0]
        user.page.set_input_files("#classify-input", [asked])
        answer = user.page.get_by_role("article", name=asked.name, exact=True)
        answer.get_by_role("list", name="Probabilities").wait_for()
        shares = answer.locator(".bars .number").all_inner_texts()
        assert sum(float(each.rstrip("%")) for each in shares) == pytest.approx(100, abs=0.2)
        answer.get_by_role("button", name="Evidence").click()
        assert answer.locator(".seen img").get_attribute("src").startswith("data:image/png")
        answer.get_by_role("button", name="Why?").click()
        answer.get_by_role("heading", name="What the stages see").wait_for()
        assert answer.locator(".stages img").count() >= 3
        assert answer.locator(".nearest img").count() >= 1

        predicted = answer.get_by_role("heading", level=3).inner_text()
        other = second if first in predicted else first  # call it wrong whatever it is
        answer.get_by_role("button", name="Wrong, it is").click()
        user.page.get_by_role("dialog").get_by_role("button", name=other).click()
        answer.get_by_text(f"Put into {other}").wait_for()
        assert (workspace / "images" / other / asked.name).read_bytes() == asked.read_bytes()
        user.facts("images have changed since training")
        user.go("teach")
        user.train()
        user.facts(f"2 classes · {n_taught + 1} images")
        assert "changed since" not in user.page.inner_text("#workspace-facts")

        user.go("take-away")
        saved = user.download("Model", tmp_path)
        assert [str(name) for name in load(saved).classes_] == [first, second]
        archived = user.download("Labelled images", tmp_path)
        with zipfile.ZipFile(archived) as archive:
            names = [Path(name).parts[-2:] for name in archive.namelist() if not name.endswith("/")]
        assert (other, asked.name) in names and len(names) == n_taught + 1
        labels = user.download("Labels", tmp_path).read_text()
        assert len(labels.splitlines()) == n_taught + 2
        facts = user.page.inner_text("#workspace-facts")

    user.page.wait_for_selector("#connection:has-text('does not answer')")
    with Server(workspace) as server:
        again = visit(server.address)
        again.facts(facts)
        again.page.wait_for_selector(".tile img")
        again.go("inspect")
        again.page.wait_for_selector(".matrix button")

    with Server(workspace.with_name("elsewhere")) as server:
        elsewhere = visit(server.address)
        elsewhere.go("take-away")
        elsewhere.page.get_by_label("Model file").set_input_files(saved)
        elsewhere.page.get_by_text("Opened: it knows 2 classes").wait_for()
        elsewhere.page.get_by_label("Zip of class folders").set_input_files(archived)
        elsewhere.facts(f"2 classes · {n_taught + 1} images · model opened from a file · ")
        elsewhere.facts(" accuracy")
        elsewhere.go("classify")
        elsewhere.page.set_input_files("#classify-input", [asked])
        elsewhere.page.get_by_role("list", name="Probabilities").wait_for()
        elsewhere.go("inspect")
        elsewhere.page.wait_for_selector("#inspect-message:has-text('train')")


def test_the_whole_way(visit, photos, tmp_path):
    the_whole_way(visit, photos / "taught", photos / "new", tmp_path / "work", tmp_path)


@pytest.mark.data
def test_the_whole_way_with_photographs(visit, data_dir, tmp_path):
    for name in ("0", "5"):
        files = sorted((data_dir / "sign_digits" / name).iterdir())
        for part, chosen in (("taught", files[:25]), ("new", files[25:27])):
            (tmp_path / part / name).mkdir(parents=True)
            for file in chosen:
                shutil.copy(file, tmp_path / part / name)
    the_whole_way(visit, tmp_path / "taught", tmp_path / "new", tmp_path / "work", tmp_path)


def test_a_bad_file_is_refused_at_its_class(visit, fresh, photos, tmp_path):
    user = visit(fresh)
    user.page.fill("#class-name", "with bad files")
    user.page.press("#class-name", "Enter")
    card = user.card("with bad files")
    card.wait_for()
    text = tmp_path / "no image.png"
    text.write_text("words")
    good = sorted((photos / "new" / "pits").iterdir())[0]
    card.get_by_label("Images for with bad files").set_input_files([good, text])
    refused = card.get_by_role("listitem")
    refused.wait_for()
    assert refused.inner_text().startswith("no image.png ") and "image" in refused.inner_text()[12:]
    card.get_by_text("1 image, few").wait_for()
    user.drop(".card.class:has-text('with bad files')", text)  # dropped, the same
    card.get_by_role("button", name="OK").click()
    refused.wait_for(state="detached")


def test_class_names(visit, fresh):
    user = visit(fresh)
    for name in ("Cats", "cats"):
        user.page.fill("#class-name", name)
        user.page.press("#class-name", "Enter")
        user.card("Cats").wait_for()
    user.page.wait_for_selector("#class-message:has-text('Cats')")  # the clash, at the field
    user.page.fill("#class-name", "Dogs")
    user.page.press("#class-name", "Enter")
    rename = user.card("Dogs").get_by_role("button", name="Rename Dogs")
    rename.click()
    dialog = user.page.get_by_role("dialog")
    dialog.get_by_label("New name").fill("CATS")
    dialog.get_by_label("New name").press("Enter")
    dialog.get_by_role("alert").filter(has_text="Cats").wait_for()
    user.page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert rename.evaluate("each => each === document.activeElement")
    rename.click()
    dialog.get_by_label("New name").fill("Hounds")
    dialog.get_by_role("button", name="Rename").click()
    user.card("Hounds").wait_for()
    user.card("Hounds").get_by_role("button", name="Delete Hounds").click()
    dialog.get_by_role("button", name="Delete").last.click()
    user.card("Hounds").wait_for(state="detached")


def test_html_in_a_class_name_is_text(visit, fresh):
    name = "<img src=x onerror=document.body.remove()>"
    user = visit(fresh)
    user.page.fill("#class-name", name)
    user.page.press("#class-name", "Enter")
    user.page.get_by_role("heading", name=name, exact=True).wait_for()
    user.page.get_by_role("button", name=f"Rename {name}", exact=True).click()
    user.page.get_by_role("dialog").get_by_text(f"Rename {name}").wait_for()
    assert user.page.locator("img[src=x]").count() == 0


def test_what_needs_a_model_says_so(visit, tmp_path, photos):
    write_photos(tmp_path / "work" / "images", ("pits",), 2)
    bad = tmp_path / "bad.midfea"
    bad.write_bytes(b"no model at all")
    with Server(tmp_path / "work") as server:
        user = visit(server.address)
        user.page.click("#train")
        user.page.wait_for_selector("#train-message:has-text('two classes')")
        user.go("classify")
        assert "no model yet" in user.page.inner_text("#classify-none")
        user.drop("#classify-title", next((photos / "new" / "pits").iterdir()))
        user.page.wait_for_selector("#classify-message:has-text('no model yet')")
        user.go("inspect")
        user.page.wait_for_selector("#inspect-message:has-text('model')")
        user.go("take-away")
        button = user.page.get_by_role("button", name="Download: Model", exact=True)
        assert button.is_disabled()
        for label in ("Model file", "Zip of class folders"):
            user.page.get_by_label(label).set_input_files(bad)
            offer = user.page.locator("li", has=user.page.get_by_label(label))
            offer.get_by_role("alert").filter(has_text=re.compile(r"\w{4,}")).wait_for()
        user.facts("no model yet")


def test_training_can_be_cancelled(visit, taught):
    user = visit(taught)
    before = user.page.inner_text("#workspace-facts")
    user.page.click("#train")
    user.page.click("#cancel")
    user.page.wait_for_selector("#train-status:has-text('cancelled')")
    user.facts(before)


def test_an_unsure_answer_and_the_threshold(visit, taught, photos):
    user = visit(taught)
    user.go("classify")
    files = sorted((photos / "new").rglob("*.png"))
    user.drop("#classify-drop", *files)
    user.page.wait_for_selector(f"#classify-status:has-text('{len(files)} images: ')")
    user.page.locator("#threshold").press("End")
    user.page.wait_for_selector(f"#classify-status:has-text('unsure {len(files)}')")
    user.page.locator("#threshold").press("Home")
    assert "unsure" not in user.page.inner_text("#classify-status")


def test_an_image_of_another_class_is_moved_when_corrected(visit, taught, tmp_path):
    user = visit(taught)
    listed = user.page.request.get(f"{taught}api/images?class=pits").json()["images"]
    image = listed[0]
    file = tmp_path / "the same under another name.png"
    file.write_bytes(user.page.request.get(f"{taught}api/images/{image['id']}/file").body())
    user.go("classify")
    user.page.locator("#threshold").press(
        "End"
    )  # unsure of everything, so that every class can be chosen
    user.page.set_input_files("#classify-input", [file])
    for name in ("crack", "pits"):  # and back
        user.page.get_by_role("button", name=re.compile("Wrong, it is|Another class")).click()
        user.page.get_by_role("dialog").get_by_role("button", name=name).click()
        user.page.get_by_text(f"Put into {name}").wait_for()
        listed = user.page.request.get(f"{taught}api/images?class={name}").json()["images"]
        assert image["id"] in [each["id"] for each in listed]


def test_a_cell_opens_its_images_and_an_image_moves(visit, taught):
    user = visit(taught)
    user.go("inspect")
    cell = user.page.locator(".matrix button.correct").first
    cell.wait_for()
    n_images = int(cell.inner_text())
    name = re.search(r"of (.+) predicted correctly", cell.get_attribute("aria-label")).group(1)
    cell.press("Enter")
    dialog = user.page.get_by_role("dialog")
    tiles = dialog.locator(".tile img")
    tiles.first.wait_for()
    assert tiles.count() == n_images
    user.page.keyboard.press("Enter")  # the first image has the focus
    viewer = user.page.locator("dialog.viewer")
    file = viewer.get_by_role("heading").inner_text()
    viewer.get_by_role("button", name="Move to another class").click()
    user.page.locator("dialog").last.get_by_role("button", name="scratch").click()
    viewer.get_by_text("Moved to scratch").wait_for()
    listed = user.page.request.get(f"{taught}api/images?class=scratch").json()["images"]
    assert file in [image["name"] for image in listed]
    viewer.get_by_role("button", name="Undo").click()
    viewer.get_by_text("Undone").wait_for()
    listed = user.page.request.get(f"{taught}api/images", params={"class": name}).json()["images"]
    assert file in [image["name"] for image in listed]
    user.page.keyboard.press("Escape")
    user.page.keyboard.press("Escape")
    assert dialog.count() == 0
    # Dialogs give the focus back in an event of their own, after they are gone.
    user.page.locator("[data-cell='0-0']:focus").wait_for()


def names_on_disk(server):
    return sorted(str(path.relative_to(server.folder)) for path in server.folder.glob("images/*/*"))


def test_disagreements_are_answered_one_by_one_and_each_answer_can_be_undone(visit, doubtful):
    server = doubtful
    before = names_on_disk(server)
    listed = server.get("inspect")["disagreements"]["images"]
    assert len(listed) >= 3
    taken = server.folder / "images" / listed[0]["predicted"] / listed[0]["name"]
    shutil.copy(next(taken.parent.iterdir()), taken)  # a file of the same name where it will go
    user = visit(server.address)
    user.go("inspect")
    part = user.page.locator(
        ".card", has=user.page.get_by_role("heading", name="Where the model disagrees")
    )
    right = part.get_by_role("button", name="Label is right")
    wrong, skip = (part.get_by_role("button", name=name) for name in ("Label is wrong, it is", "Skip"))
    undo = part.get_by_role("button", name="Undo")
    part.get_by_text(f"{len(listed)} images to look at").wait_for()
    assert part.get_by_label("The right class").input_value() == listed[0]["predicted"]
    assert part.get_by_label("The right class").locator("option").count() == len(STRIPES) - 1

    wrong.press("Enter")  # by the keyboard: the focus stays
    part.get_by_text(f"{listed[0]['name']} is now {listed[0]['predicted']}").wait_for()
    assert wrong.evaluate("each => each === document.activeElement")
    part.get_by_text(listed[1]["name"], exact=True).wait_for()
    user.page.wait_for_selector("#inspect-changed:has-text('1 label has changed since')")
    right.press("Enter")
    part.get_by_text(f"{listed[1]['name']} stays {listed[1]['class']}").wait_for()
    skip.press("Enter")
    part.get_by_text(f"{listed[2]['name']} was skipped").wait_for()
    assert server.get("inspect")["disagreements"]["checked"] == 1

    user.page.reload()  # a skipped one comes again, the others do not
    part.get_by_text(f"{len(listed) - 2} image").first.wait_for()
    part.get_by_text(listed[2]["name"], exact=True).wait_for()
    for image in listed[:2]:
        body = {"class": image["class"], "checked": False}
        server.client.patch(f"/api/images/{image['id']}", json=body)
    part.get_by_text(f"{len(listed)} images to look at").wait_for()

    user.page.reload()
    part.get_by_text(listed[0]["name"], exact=True).wait_for()
    for button, image in zip((wrong, right, skip), listed, strict=False):
        part.get_by_text(image["name"], exact=True).wait_for()
        button.click()
        part.get_by_role("status").filter(has_text=image["name"]).wait_for()
    for image in reversed(listed[:3]):
        undo.press("Enter")
        part.get_by_text(f"Undone: {image['name']}.").wait_for()
        part.get_by_text(image["name"], exact=True).wait_for()
    part.get_by_text(f"{len(listed)} images to look at").wait_for()
    taken.unlink()
    assert names_on_disk(server) == before
    assert json.loads((server.folder / "notes.json").read_text())["checked"] == []


def test_a_weak_model_has_no_list_and_the_page_says_why(visit, taught):
    user = visit(taught)
    user.go("inspect")
    user.page.get_by_text(re.compile(r"The model is right for [\d.]+% of images")).wait_for()
    assert not user.page.get_by_role("button", name="Label is right").is_visible()


def test_the_page_says_what_is_missing_without_torch(visit, tmp_path, without):
    without("torch")
    with Server(tmp_path / "work") as server:
        user = visit(server.address)
        hint = user.page.locator("#missing-torch")
        hint.get_by_text("PyTorch is not installed").wait_for()
        assert "70.0%" in hint.inner_text() and "79.5%" in hint.inner_text()
        assert "pip" in hint.inner_text() and "install" in hint.inner_text()
        assert user.page.input_value("#preset") == "fast"
        assert user.page.locator("#finetune").is_disabled()


def test_deleting_can_be_undone(visit, taught):
    user = visit(taught)
    card = user.card("pits")
    card.locator(".tile img").first.wait_for()
    card.locator(".tile").first.focus()
    user.page.keyboard.press("ArrowRight")
    user.page.keyboard.press("Enter")
    viewer = user.page.locator("dialog.viewer")
    viewer.get_by_text("2 of 14").wait_for()
    viewer.get_by_role("button", name="Delete").click()
    viewer.get_by_text("Deleted").wait_for()
    card.get_by_text("13 images").wait_for()
    viewer.get_by_role("button", name="Undo").click()
    card.get_by_text("14 images").wait_for()


def test_two_tabs_agree(visit, fresh, photos):
    user = visit(fresh)
    other = user.open_tab()
    user.page.bring_to_front()
    user.page.fill("#class-name", "seen by both")
    user.page.press("#class-name", "Enter")
    card = user.card("seen by both")
    card.get_by_label("Images for seen by both").set_input_files(
        sorted((photos / "new" / "scratch").iterdir())
    )
    card.get_by_text("3 images").wait_for()
    other.bring_to_front()
    theirs = other.get_by_role("group", name="Class seen by both", exact=True)
    theirs.get_by_text("3 images").wait_for()
    theirs.get_by_role("button", name="Delete seen by both").click()
    other.get_by_role("dialog").get_by_role("button", name="Delete 3 images").click()
    theirs.wait_for(state="detached")
    user.page.bring_to_front()
    card.wait_for(state="detached")


def test_a_photograph_from_the_camera(visit, fresh):
    user = visit(fresh, permissions=["camera"])
    user.page.fill("#class-name", "photographed")
    user.page.press("#class-name", "Enter")
    card = user.card("photographed")
    card.get_by_role("button", name="Photograph for photographed").click()
    user.page.get_by_role("button", name="Take a photo").click()
    card.get_by_text("1 image,").wait_for()
    user.page.keyboard.press("Escape")
    card.locator(".tile img").wait_for()


def test_many_images_are_few_elements(visit, tmp_path):
    folder = tmp_path / "work" / "images" / "many"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(5000):
        noise = rng.integers(0, 255, (16, 16), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"{i}.png", compress_level=0)
    with Server(tmp_path / "work") as server:
        user = visit(server.address)
        user.facts("5,000 images")
        card = user.card("many")
        tiles = card.locator(".tile")
        tiles.first.wait_for()
        tiles.first.focus()
        user.page.keyboard.press("End")
        last = card.get_by_role("button", name="5000 of 5000")
        last.locator("img").wait_for()
        assert last.evaluate("each => each === document.activeElement")
        assert 0 < tiles.count() < 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_is_accessible(visit, taught, photos, scheme):
    axe = find_spec("axe_playwright_python")
    _need(axe, "axe-playwright-python, which brings axe-core, is not installed")
    script = Path(axe.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    user = visit(taught, color_scheme=scheme)
    page = user.page
    page.evaluate(script)

    def check(what):
        found = page.evaluate("axe.run()")
        serious = [
            f"{each['id']}: {each['nodes'][0]['html']} {each['nodes'][0]['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert not serious, f"{what}: {serious}"
        assert len(found["passes"]) > 10

    page.locator(".tile img").first.wait_for()
    user.go("classify")
    page.set_input_files("#classify-input", sorted((photos / "new").rglob("*.png"))[:2])
    page.get_by_role("button", name="Why?").first.click()
    page.get_by_role("heading", name="What the stages see").wait_for()
    user.go("inspect")
    page.locator(".matrix button").first.wait_for()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for screen in SCREENS:
            user.go(screen)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, screen
            if width == 1280 or screen == "teach":
                check(screen)
    user.go("teach")
    page.locator(".tile").first.click()
    page.locator("dialog img.large").wait_for()
    check("the image")


def photograph(page, path, whole=False, n_colours=256):
    """A picture of the page, small enough to be kept."""
    page.wait_for_timeout(400)  # thumbnails
    page.screenshot(path=path, full_page=whole)
    with Image.open(path) as picture:
        kept = picture.convert("RGB")
    (kept.quantize(n_colours) if n_colours else kept).save(path, optimize=True)


@pytest.mark.skipif("MIDFEA_SCREENSHOTS" not in os.environ, reason="pictures only when asked for")
def test_screenshots(visit, tmp_path):
    """Each screen at two widths, light and dark."""
    target = Path(os.environ["MIDFEA_SCREENSHOTS"])
    workspace = tmp_path / "surfaces"
    write_photos(workspace / "images", ("crack", "inclusion", "patch", "pits", "scale", "scratch"), 40)
    for k, (was, becomes) in enumerate((("pits", "scale"), ("crack", "scratch"))):  # two wrong labels
        wrong = sorted((workspace / "images" / was).iterdir())[k]
        wrong.rename(workspace / "images" / becomes / wrong.name)
    new = write_photos(tmp_path / "new", ("crack", "pits", "scale"), 1, seed=5)
    with Server(workspace) as server:
        user = visit(server.address)
        page = user.page
        page.evaluate("localStorage.setItem('midfea-settings', JSON.stringify({neurons: 12}))")
        page.reload()
        page.wait_for_selector(".tile img")
        page.click("#train")
        page.wait_for_selector("#job-text:has-text('left')", timeout=TRAINED)
        page.set_viewport_size({"width": 1280, "height": 900})
        photograph(page, target / "serve-training.png")
        page.wait_for_selector("#train-status:has-text('Trained.')", timeout=5 * TRAINED)
        page.reload()
        page.wait_for_selector(".tile img")
        user.go("classify")
        page.set_input_files("#classify-input", sorted(new.rglob("*.png")))
        page.get_by_role("button", name="Evidence").nth(1).click()
        page.get_by_role("button", name="Why?").first.click()
        page.get_by_role("heading", name="What the stages see").wait_for()
        user.go("inspect")
        page.locator(".matrix button").first.wait_for()
        # No folder of the machine that this runs on.
        page.evaluate("document.getElementById('workspace-path').textContent = 'surfaces'")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width, height in ((1280, 900), (390, 844)):
                page.set_viewport_size({"width": width, "height": height})
                for screen in SCREENS:
                    user.go(screen)
                    n_colours = None if screen == "classify" else 256  # evidence has many
                    picture = target / f"serve-{screen}-{width}-{scheme}.png"
                    photograph(page, picture, whole=True, n_colours=n_colours)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 900})
        user.go("inspect")
        page.locator(".matrix button.wrong").first.click()
        page.locator("dialog .tile img").first.wait_for()
        photograph(page, target / "serve-images-of-a-cell.png")


def test_what_is_not_installed_is_not_offered(visit, tmp_path, without):
    without("torch", "onnx")
    with Server(tmp_path / "workspace", Path(__file__).parent / "data/fast-v2.midfea") as server:
        user = visit(server.address)
        page = user.page
        page.wait_for_selector("#missing-torch:has-text('PyTorch is not installed')")
        page.click("summary:has-text('More settings')")
        assert page.is_disabled("#finetune")
        user.go("take-away")
        page.wait_for_selector("li:has-text('onnx is not installed: ')")
        assert page.is_disabled("[aria-label='Download: ONNX file']")
        assert page.is_enabled("[aria-label='Download: Model']")
