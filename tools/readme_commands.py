"""Run what README.md tells a newcomer to type, in an environment that has midfea.

python tools/readme_commands.py FOLDER/bin    the folder of the environment's `midfea` and `python`

It takes the commands of the README as they stand, on drawn photos, and ends with status 1 if one of them
fails, or if `train` made no network. `./dev`, which makes an environment of its own, and
`midfea reproduce`, which needs the paper's images, are named and left out.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
LEFT_OUT = ("./dev", "pip", "midfea reproduce")
PHOTOS = """
from pathlib import Path
from PIL import Image
from midfea.datasets import load_surfaces
data = load_surfaces(n_per_class=10, random_state=0)
for i, (image, kind) in enumerate(zip(data.images, data.target)):
    folder = Path("folder" if i < 6 else "photos/" + data.target_names[kind])
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folder / f"{i}.png")
Image.fromarray(image).save("new.jpg")
"""
NAMES = """
from midfea.datasets import load_folder
photos = load_folder("photos")
images, labels, new_images = photos.images, photos.target, photos.images[:3]
"""
HAS_NETWORK = "import midfea; assert midfea.load('model.midfea').network_ is not None"
SERVER_SECONDS = 20


def main() -> None:
    """Run everything, in the order of the README."""
    programs = Path(sys.argv[1]).absolute()
    text = README.read_text()
    lines = [line.partition("  #")[0].strip() for line in re.findall(r"^ {4}(\S.*)", text, re.MULTILINE)]
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert lines and example
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run(["python", "-c", PHOTOS], check=True)
        for line in [*lines, "midfea demo", "midfea serve"]:
            if line.startswith(LEFT_OUT):
                print(f"left out: {line}")
            else:
                failed += not run(line, ["bash", "-c", line])
        failed += not run("the model has its network", ["python", "-c", HAS_NETWORK])
        failed += not run("the example in Python", ["python", "-c", NAMES + example[1]])
    print(f"{failed} failed" if failed else "All of them work")
    sys.exit(bool(failed))


def run(title: str, command: list[str]) -> bool:
    """Run a command to its end, the server until it has printed its address."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if title == "midfea serve":
        time.sleep(SERVER_SECONDS)
        process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()
    works = process.returncode == 0 and (title != "midfea serve" or "Open http://" in output)
    print(f"{'works' if works else 'FAILS'} ({time.monotonic() - begun:.0f} s): {title}")
    print("".join(f"    {line}\n" for line in output.splitlines()), end="", flush=True)
    return works


if __name__ == "__main__":
    main()
