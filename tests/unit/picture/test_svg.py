"""Pictures: nothing overlaps, and no name becomes markup."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest
from pictured import EVIL, MODELS, converted

from hbconv.errors import OptionError
from hbconv.picture.layout import lay_out
from hbconv.picture.scene import make_scene
from hbconv.picture.sizes import cut, width_of
from hbconv.picture.svg import write_svg

STAGES = ["optimized", "parsed"]
ELEMENTS = {"svg", "title", "g", "rect", "path", "text"}


def laid_out(name, stage):
    model = converted(name)
    scene = make_scene(model.graph if stage == "optimized" else model.parsed, model.target)
    return scene, lay_out(scene)


def sides(spot):
    return spot.x, spot.y, spot.x + spot.size.width, spot.y + spot.size.height


def overlap(one, other):
    left, top, right, bottom = sides(one)
    x, y, to_x, to_y = sides(other)
    return left < to_x and x < right and top < to_y and y < bottom


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stage", STAGES)
def test_nothing_overlaps(name, stage):
    scene, layout = laid_out(name, stage)
    assert not any(overlap(a, b) for a, b in combinations(layout.boxes, 2))
    assert not any(overlap(a, b) for a, b in combinations(layout.clusters, 2))
    for cluster, spot in zip(scene.clusters, layout.clusters, strict=True):
        left, top, right, bottom = sides(spot)
        for box in cluster.boxes:
            x, y, to_x, to_y = sides(layout.boxes[box])
            assert left <= x + 1e-6
            assert to_x <= right + 1e-6
            assert top <= y + 1e-6
            assert to_y <= bottom + 1e-6


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stage", STAGES)
def test_lines_go_down_from_box_to_box_around_other_boxes(name, stage):
    scene, layout = laid_out(name, stage)
    for (above, below), points in zip(scene.lines, layout.lines, strict=True):
        heights = [y for _, y in points]
        assert heights == sorted(heights)
        assert points[0][1] == pytest.approx(sides(layout.boxes[above])[3])
        assert points[-1][1] == pytest.approx(layout.boxes[below].y)
        for number, spot in enumerate(layout.boxes):
            if number not in (above, below):
                left, top, right, bottom = sides(spot)
                assert not any(left < x < right and top < y < bottom for x, y in points)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stage", STAGES)
def test_the_picture_is_plain_markup(name, stage):
    picture = converted(name).explain().to_svg(stage=stage)
    root = ET.fromstring(picture)
    found = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
    assert found <= ELEMENTS
    names = {attribute for element in root.iter() for attribute in element.attrib}
    assert not any(name.startswith("on") or "href" in name for name in names)
    assert "url(" not in picture


def test_names_stay_text():
    root = ET.fromstring(converted("table").explain().to_svg(stage="parsed"))
    told = " ".join(text for element in root.iter() for text in element.itertext())
    for name in EVIL:
        assert re.sub(r"[\x00-\x1f\u202e]", " ", name).split()[0] in told


def test_a_name_that_xml_cannot_hold_is_left_out():
    scene, _ = laid_out("table", "parsed")
    for character in ("\x00", "\ud800", "\ufffe"):
        ET.fromstring(write_svg(scene, f"a{character}b"))


def test_equal_graphs_give_equal_pictures():
    explanation = converted("stacked").explain()
    assert explanation.to_svg() == explanation.to_svg()


def test_other_stages_have_no_picture():
    with pytest.raises(OptionError, match="Did you mean 'parsed'"):
        converted("heads").explain().to_svg(stage="parsd")


def test_notebooks_show_it():
    for shown in (converted("table"), converted("table").explain()):
        page = shown._repr_html_()
        assert "<svg" in page
        assert "<script" not in page


@pytest.mark.parametrize(
    "text", ["petal length (cm)", "日本語の列", "e\u0301" * 30, "WWWW", "", "a b c d e"]
)
def test_as_much_of_a_text_is_kept_as_fits(text):
    for most in range(0, 200, 7):
        kept = cut(text, 10, most)
        if width_of(text, 10) <= most:
            assert kept == text
            continue
        begun = kept.removesuffix("…")
        assert text.startswith(begun)
        assert not begun or width_of(kept, 10) <= most
        longer = [text[:n] for n in range(len(begun) + 1, len(text)) if text[:n].rstrip() != begun]
        assert all(width_of(more + "…", 10) > most for more in longer if more.rstrip() == more)


def test_a_text_of_a_million_characters_is_cut_at_once():
    """Taking characters off its end one by one, each time measured anew, took hours."""
    assert cut("x" * 1_000_000, 10, 60) == cut("x" * 100, 10, 60)
