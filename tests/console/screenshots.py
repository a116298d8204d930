"""Pictures of every view for docs/screenshots/: `make screenshots`, or only those whose names hold one of the words given.

python tests/console/screenshots.py [--width 360 --width 1440] [--into docs/screenshots] [word …]
"""

import argparse
import io
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from browsing import chromium  # noqa: E402  # from the folders above
from furnished import furnish  # noqa: E402
from PIL import Image  # noqa: E402
from stands import stand  # noqa: E402
from states import WIDTHS, visit  # noqa: E402

COLOURS = 160
TALLEST = 2600
"""Pixels; what is below them repeats what is above."""


def small(png: bytes) -> Image.Image:
    """The picture in the colours that it has most of, exactly: its file is small, and large areas stay as they are."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, TALLEST)))
    most = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)[:COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in most for part in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--into", type=Path, default=HERE.parents[1] / "docs" / "screenshots")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    program = shutil.which("chromium") or sys.exit("chromium is not installed")
    options.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium(program) as browser, stand(Path(folder)) as opened:
        furnished = furnish(opened)
        for width in options.width or WIDTHS:
            for state, page in visit(browser, furnished, width, only=options.words):
                for theme in ("light", "dark"):
                    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                    picture = small(page.screenshot(full_page=not page.get_by_role("dialog").count()))
                    picture.save(options.into / f"{state.name}-{width}-{theme}.png", optimize=True)


if __name__ == "__main__":
    main()
