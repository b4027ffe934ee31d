"""What makes the peak of a plan, and its pictures."""

import io
from xml.etree import ElementTree as ET

import pytest

from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.plan import plan_network
from aisrv.addons.predict.arena_drawing import picture, summarize, to_png, to_svg, to_text
from aisrv.model import Model
from aisrv.model.arena_plan import plan_arena
from aisrv.model.reader import read_model
from tests.support.models import networks
from tests.support.models.control_models import choosing
from tests.support.models.scratch_backend import Scratchy, digits_model
from tests.support.peers import mlperf_tiny


def test_summary_of_a_model_whose_plan_is_above_the_lower_bound() -> None:
    model = read_model(mlperf_tiny.model_bytes("vww_96_int8"))
    summary = summarize(plan_network(model, ReferenceBackend()))
    assert (summary.head, summary.lower_bound) == (73_728, 55_296)
    assert sum(each.size for each in summary.fullest) == 55_296
    assert all(each.first <= summary.fullest_step <= each.last for each in summary.fullest)
    assert {each.offset + each.size for each in summary.highest} == {73_728}


# Pictures.


def test_text_has_a_column_for_each_operator_and_the_numbers() -> None:
    model = digits_model()
    plan = plan_network(model, Scratchy())
    lines = to_text(model, plan, rows=4).splitlines()
    assert lines[4].split() == ["operator", "in", "0", "1", "2", "3", "4", "5"]
    assert lines[0].split()[0] == f"{plan.head:,}"
    assert f"peak         {plan.head:,} bytes" in lines
    assert f"lower bound  {plan.lower_bound:,} bytes, at operator 2 (CONV_2D)" in lines
    assert any("scratch of operator 2: 576 bytes" in line for line in lines)


def test_svg_has_a_rectangle_for_each_buffer_where_it_lies() -> None:
    model = digits_model()
    plan = plan_network(model, Scratchy())
    root = ET.fromstring(to_svg(picture(model, plan)))
    groups = [element for element in root if element.tag.endswith("}g")]
    assert len(groups) == len(plan.allocations)
    scale = 480 / plan.head
    for group, each in zip(groups, plan.allocations, strict=True):
        rectangle = group[0].attrib
        assert float(rectangle["height"]) == pytest.approx(scale * each.size, abs=0.02)
        bottom = float(rectangle["y"]) + float(rectangle["height"])
        assert bottom == pytest.approx(64 + 480 - scale * each.offset, abs=0.02)
        assert float(rectangle["width"]) == 36 * (each.last - each.first + 1)


def test_svg_has_an_axis_of_offsets_in_round_steps() -> None:
    model = digits_model()
    plan = plan_network(model, Scratchy())
    drawing = picture(model, plan)
    offsets = [int(text.replace(",", "")) for _, text in drawing.offsets]
    step = offsets[1]
    assert offsets == list(range(0, plan.head + 1, step))
    assert step & (step - 1) == 0
    assert 4 <= len(offsets) <= 9
    scale = 480 / plan.head
    assert [height for height, _ in drawing.offsets] == [64 + 480 - scale * offset for offset in offsets]
    texts = list(ET.fromstring(to_svg(drawing)).itertext())
    assert {text for _, text in drawing.offsets} <= set(texts)


def test_svg_has_a_legend_of_lines_and_colors() -> None:
    model = digits_model()
    plan = plan_network(model, Scratchy())
    texts = list(ET.fromstring(to_svg(picture(model, plan))).itertext())
    for entry in (
        f"peak, {plan.head:,} bytes",
        f"lower bound, {plan.lower_bound:,} bytes",
        "tensor, with its number",
        "scratch",
    ):
        assert entry in texts


def test_the_picture_is_wide_enough_for_its_legend() -> None:
    drawing = picture(digits_model(), plan_network(digits_model(), Scratchy()))
    left, _, text, _ = drawing.legend[-1]
    assert left + 22 + 7 * len(text) < drawing.width


def test_names_of_tensors_cannot_break_out_of_the_svg() -> None:
    model = read_model(networks.adding_network(2, 1).replace(b"sum0", b'<&">'))
    root = ET.fromstring(to_svg(picture(model, plan_network(model, ReferenceBackend()))))
    assert [text for text in root.itertext() if "<&" in text] == [
        f'tensor 2 <&">: 16 bytes at {plan_arena(model).allocations[2].offset}'
    ]


def test_png_is_an_image_of_the_pictures_size() -> None:
    from PIL import Image

    drawing = picture(digits_model(), plan_network(digits_model(), Scratchy()))
    with Image.open(io.BytesIO(to_png(drawing))) as image:
        assert (image.format, image.size) == ("PNG", (drawing.width, drawing.height))
        box = drawing.boxes[0]
        center = (int((box.left + box.right) / 2), int((box.top + box.bottom) / 2))
        pixel = image.getpixel(center)
        assert isinstance(pixel, tuple)
        assert "#" + "".join(f"{value:02x}" for value in pixel) == box.color


def test_png_of_too_many_operators_is_refused() -> None:
    model = read_model(networks.adding_network(2, 2000))
    with pytest.raises(NetworkError, match="too many for a PNG"):
        to_png(picture(model, plan_network(model, ReferenceBackend())))


def test_nothing_in_the_arena_is_drawn_too() -> None:
    model = Model(3, "", (), (), (), ())
    plan = plan_network(model, ReferenceBackend())
    assert plan.head == 0
    assert "peak         0 bytes" in to_text(model, plan)
    ET.fromstring(to_svg(picture(model, plan)))


def test_steps_of_subgraphs_are_drawn() -> None:
    model = read_model(choosing())
    plan = plan_arena(model)
    drawn = to_text(model, plan)
    assert f"peak         {plan.head:,} bytes" in drawn
    assert "SUBGRAPH 2" in to_svg(picture(model, plan))
