"""Plans with scratch, plans without sharing, what makes a peak, and pictures of all that."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from aisrv import digits
from aisrv.analysis.arena_drawing import picture, to_svg, write_png
from aisrv.analysis.plan_text import to_text
from aisrv.cli.main import main
from aisrv.kernels.backends.reference import ReferenceBackend
from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.graph.plan import plan_apart, plan_graph, scratch_buffers, summarize
from aisrv.kernels.params import Shape4
from aisrv.model import Model
from aisrv.model.arena_plan import Allocation, Scratch, plan_arena
from tests.support import mlperf_tiny, networks


class Scratchy(ReferenceBackend):
    """Wants scratch as CMSIS-NN and esp-nn do ("The INT8 kernel engine", section KernelBackend)."""

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        _, height, width, depth = weights_shape
        return 4 * -(-height * width * depth // 4) * 4

    def softmax_scratch_size(self, num_classes: int) -> int:
        return 4 * num_classes


def digits_model() -> Model:
    return Model.from_bytes(digits.model_bytes())


def test_scratch_is_asked_for_with_the_operators_shapes() -> None:
    # 3x3 taps of 1 and of 16 channels; 10 classes.
    assert scratch_buffers(digits_model(), Scratchy()) == [
        Scratch(0, 48),
        Scratch(2, 576),
        Scratch(5, 40),
    ]


def test_without_scratch_the_plan_is_that_of_tflm() -> None:
    assert plan_graph(digits_model(), ReferenceBackend()) == plan_arena(digits_model())


def test_scratch_lives_while_its_operator_runs_and_shares_no_byte_with_what_lives_then() -> None:
    model = digits_model()
    plan = plan_graph(model, Scratchy())
    extra = plan.allocations[-3:]
    count = len(model.tensors)
    assert [(each.tensor, each.size, each.first, each.last) for each in extra] == [
        (count, 48, 1, 1),
        (count + 1, 576, 3, 3),
        (count + 2, 48, 6, 6),  # 40 bytes, rounded up to 16
    ]
    for one in plan.allocations:
        for other in plan.allocations:
            if one.tensor < other.tensor and one.first <= other.last and other.first <= one.last:
                assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset


def test_scratch_is_placed_behind_tensors_of_its_size() -> None:
    # Of equals the later goes first, and scratch is behind all tensors (greedy_memory_planner.cc).
    model = Model.from_bytes(networks.adding_network(2, 1, 16))
    plan = plan_arena(model, [Scratch(0, 16)])
    assert {each.tensor: each.offset for each in plan.allocations} == {3: 0, 2: 16, 1: 32, 0: 48}


def test_apart_nothing_shares() -> None:
    plan = plan_apart(digits_model(), Scratchy())
    ends = [each.offset + each.size for each in plan.allocations]
    assert [each.offset for each in plan.allocations] == [0, *ends[:-1]]
    assert plan.head == ends[-1] == sum(each.size for each in plan.allocations)


def test_summary_of_a_model_whose_plan_is_above_the_lower_bound() -> None:
    model = Model.from_bytes(mlperf_tiny.model_bytes("vww_96_int8"))
    summary = summarize(plan_graph(model, ReferenceBackend()))
    assert (summary.head, summary.lower_bound) == (73_728, 55_296)
    assert sum(each.size for each in summary.fullest) == 55_296
    assert all(each.first <= summary.fullest_step <= each.last for each in summary.fullest)
    assert {each.offset + each.size for each in summary.highest} == {73_728}


def test_convolution_without_four_dimensions_has_no_plan() -> None:
    model = digits_model()
    flat = Model(
        model.version,
        "",
        tuple(
            type(each)(
                each.index, each.name, (64,), each.type, each.quantization, each.is_constant, False, 64
            )
            for each in model.tensors
        ),
        model.operators,
        model.inputs,
        model.outputs,
    )
    with pytest.raises(GraphError, match=r"operator 0 \(CONV_2D\) needs .* four dimensions"):
        plan_graph(flat, ReferenceBackend())


# Pictures.


def test_text_has_a_column_for_each_operator_and_the_numbers() -> None:
    model = digits_model()
    plan = plan_graph(model, Scratchy())
    lines = to_text(model, plan, rows=4).splitlines()
    assert lines[4].split() == ["operator", "in", "0", "1", "2", "3", "4", "5"]
    assert lines[0].split()[0] == f"{plan.head:,}"
    assert f"peak         {plan.head:,} bytes" in lines
    assert f"lower bound  {plan.lower_bound:,} bytes, at operator 2 (CONV_2D)" in lines
    assert any("scratch of operator 2: 576 bytes" in line for line in lines)


def test_svg_has_a_rectangle_for_each_buffer_where_it_lies() -> None:
    model = digits_model()
    plan = plan_graph(model, Scratchy())
    root = ET.fromstring(to_svg(picture(model, plan)))
    groups = [element for element in root if element.tag.endswith("}g")]
    assert len(groups) == len(plan.allocations)
    scale = 480 / plan.head
    for group, each in zip(groups, plan.allocations, strict=True):
        rectangle = group[0].attrib
        assert float(rectangle["height"]) == pytest.approx(scale * each.size, abs=0.02)
        bottom = float(rectangle["y"]) + float(rectangle["height"])
        assert bottom == pytest.approx(40 + 480 - scale * each.offset, abs=0.02)
        assert float(rectangle["width"]) == 36 * (each.last - each.first + 1)


def test_names_of_tensors_cannot_break_out_of_the_svg() -> None:
    model = Model.from_bytes(networks.adding_network(2, 1).replace(b"sum0", b'<&">'))
    root = ET.fromstring(to_svg(picture(model, plan_graph(model, ReferenceBackend()))))
    assert [text for text in root.itertext() if "<&" in text] == [
        f'tensor 2 <&">: 16 bytes at {plan_arena(model).allocations[2].offset}'
    ]


def test_png_is_an_image_of_the_pictures_size(tmp_path: Path) -> None:
    from PIL import Image

    drawing = picture(digits_model(), plan_graph(digits_model(), Scratchy()))
    write_png(drawing, tmp_path / "plan.png")
    with Image.open(tmp_path / "plan.png") as image:
        assert (image.format, image.size) == ("PNG", (drawing.width, drawing.height))
        box = drawing.boxes[0]
        center = (int((box.left + box.right) / 2), int((box.top + box.bottom) / 2))
        pixel = image.getpixel(center)
        assert isinstance(pixel, tuple)
        assert "#" + "".join(f"{value:02x}" for value in pixel) == box.color


def test_png_of_too_many_operators_is_refused(tmp_path: Path) -> None:
    model = Model.from_bytes(networks.adding_network(2, 2000))
    with pytest.raises(GraphError, match="too many for a PNG"):
        write_png(picture(model, plan_graph(model, ReferenceBackend())), tmp_path / "plan.png")


def test_nothing_in_the_arena_is_drawn_too() -> None:
    model = Model(3, "", (), (), (), ())
    plan = plan_graph(model, ReferenceBackend())
    assert plan.head == 0
    assert "peak         0 bytes" in to_text(model, plan)
    ET.fromstring(to_svg(picture(model, plan)))


# The command.


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path


def test_command_prints_json(model_file: Path) -> None:
    result = CliRunner().invoke(main, ["plan", str(model_file), "--json"])
    assert result.exit_code == 0
    plan = json.loads(result.output)
    assert (plan["head"], plan["lower_bound"]) == (1280, 1280)
    assert plan["operators"][0] == "CONV_2D"
    assert Allocation(0, 64, 0, 1, plan["buffers"][0]["offset"]).size == plan["buffers"][0]["size"]


def test_command_writes_pictures(model_file: Path, tmp_path: Path) -> None:
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    result = CliRunner().invoke(main, ["plan", str(model_file), "--svg", str(svg), "--png", str(png)])
    assert (result.exit_code, result.output) == (0, "")
    assert svg.read_text().startswith("<svg ")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_command_refuses_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "noise.tflite"
    path.write_bytes(b"noise")
    result = CliRunner().invoke(main, ["plan", str(path)])
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {path}: not a TensorFlow Lite file: it has 5 bytes, too few for a header\n"
    )
