"""The page on a model loads nothing, and no name of a column or a step becomes markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from pictured import EVIL, MODELS, converted

VOID = {"meta", "link"}


class Read(HTMLParser):
    """The tags of a page, their attributes, and the text of scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.scripts, self.text = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.scripts if self.open[-1:] == ["script"] else self.text).append(data)


@pytest.mark.parametrize("backend", ["torch", "tvm"])
@pytest.mark.parametrize("name", MODELS)
def test_the_page_is_whole_and_loads_nothing(name, backend):
    page = converted(name, backend).explain().to_html()
    read = Read(page)
    assert read.open == []
    assert [tag for tag, _ in read.tags].count("script") == 2
    assert [tag for tag, _ in read.tags].count("svg") == 2
    assert "img" not in {tag for tag, _ in read.tags}
    for _, attributes in read.tags:
        assert not any(attribute.startswith("on") for attribute in attributes)
        for attribute in ("src", "href"):
            assert attributes.get(attribute, "#").startswith(("#", "data:,"))
    assert not re.search(r"\{\{(title|after|text|plan)\}\}", page)


def test_names_reach_the_page_as_text():
    read = Read(converted("table").explain().to_html())
    told = " ".join(read.text)
    assert EVIL[0] in told
    assert "</title>prep" in told
    assert "{{boxes}}" in told


def test_each_box_of_both_pictures_is_told_of():
    read = Read(converted("table").explain().to_html())
    boxes = json.loads(read.scripts[0])
    drawn = [int(a["data-box"]) for tag, a in read.tags if tag == "g" and "data-box" in a]
    assert sorted(drawn) == sorted([*range(len(boxes["after"])), *range(len(boxes["before"]))])
    facts = {name for box in boxes["before"] for name, _ in box["facts"]}
    assert {"step", "node", "returns", "columns", "rules"} <= facts
    assert any("<script>" in fact for box in boxes["before"] for _, fact in box["facts"])


def test_plan_and_kernels_are_predicted():
    told = " ".join(Read(converted("table", "tvm").explain().to_html()).text)
    assert "Predicted for calls of 10,000 rows." in told
    assert re.search(r"predict_proba: [\d.]+ ns a row, predicted", told)
    assert "select (the cheapest" in told
