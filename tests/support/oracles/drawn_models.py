"""What holds for the drawing of any model: boxes apart, a title for each box and edge, nothing that runs."""

import json
import re
from itertools import pairwise
from xml.etree import ElementTree as ET

from aisrv.addons.predict.model_view import ModelView
from aisrv.addons.predict.model_view.drawing import BOX_HEIGHT, BOX_WIDTH, Box, draw, to_svg
from aisrv.addons.predict.model_view.text import to_text

SVG = "{http://www.w3.org/2000/svg}"


def check_drawing(view: ModelView) -> int:
    """Check a drawing; return its number of boxes."""
    drawing = draw(view)
    rows: dict[float, list[Box]] = {}
    for box in drawing.boxes:
        assert 0 <= box.left <= drawing.width - BOX_WIDTH
        assert 0 <= box.top <= drawing.height - BOX_HEIGHT
        rows.setdefault(box.top, []).append(box)
    tops = sorted(rows)
    assert all(below - above >= BOX_HEIGHT for above, below in pairwise(tops))
    for row in rows.values():
        lefts = sorted(box.left for box in row)
        assert all(right - left >= BOX_WIDTH for left, right in pairwise(lefts))
    text = to_svg(view)
    assert not re.search(r"<script|javascript:|\bon\w+=|https?://(?!www\.w3\.org/2000/svg)", text)
    groups = ET.fromstring(text).findall(f"{SVG}g")
    assert len(groups) == len(drawing.boxes) + len(drawing.lines)
    assert all(group.findtext(f"{SVG}title") for group in groups)
    return len(drawing.boxes)


def check_texts(view: ModelView) -> None:
    """Check that JSON and text of a model can be shown anywhere."""
    json.dumps(view.as_json(), allow_nan=False)
    assert to_text(view).replace("\n", "").isprintable()
