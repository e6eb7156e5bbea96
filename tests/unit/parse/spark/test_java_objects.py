"""Objects that a JVM serialized: their fields are data, and damage ends in a named error."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest

from hbconv.errors import ConversionError
from hbconv.parse.damage import reading
from hbconv.parse.spark.boosters import JavaObject, read_java_object
from tests.support.synapse_models import STORED

BOOSTER = "com.microsoft.azure.synapse.ml.lightgbm.booster.LightGBMBooster"
CLASSES = (
    BOOSTER,
    "scala.None$",
    "scala.Option",
    "scala.Some",
    "scala.runtime.ModuleSerializationProxy",
)

LONG = "d39a29c5a67b3a0c3220acddf8669b4a0a452da7c1fd436e960c1a2f18cb4d95"
"""The model text that the JVM read."""


@pytest.mark.parametrize("stored", ["scala_2_12", "scala_2_13"])
def test_reads_fields_of_a_class_and_its_bases(stored: str) -> None:
    """Numbers, an Option that holds a text, and one that is empty."""
    found = read_java_object(STORED[stored], CLASSES)
    assert found.name == BOOSTER
    assert found.fields["bestIteration"] == found.fields["numIterations"] == -1
    assert found.fields["startIteration"] == found.fields["bitmap$0"] == 0
    assert found.fields["modelStr"] == JavaObject("scala.Some", {"value": "MODEL"})
    assert found.fields["parameters"] is found.fields["trainDataset"]
    empty = "scala.None$" if stored == "scala_2_12" else "scala.runtime.ModuleSerializationProxy"
    assert found.fields["parameters"].name == empty


def test_reads_texts_of_any_length_and_alphabet() -> None:
    """Java has a second form for texts beyond 65,535 bytes, and UTF-8 of its own."""
    long = read_java_object(STORED["long"], CLASSES).fields["modelStr"].fields["value"]
    assert hashlib.sha256(long.encode()).hexdigest() == LONG
    texts = read_java_object(STORED["texts"], CLASSES).fields["modelStr"].fields["value"]
    assert texts == "a\0\u00e9\u20ac\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (STORED["list"], "class java.util.ArrayList; hbconv reads com.microsoft"),
        (STORED["array"], "more than plain objects: code 0x75"),
        (b"tree", "no Java object"),
        (STORED["scala_2_12"][:-1], "ends before its object does"),
        (STORED["scala_2_12"] + b"p", "more follows"),
        (b"\xac\xed\x00\x05p", "a NoneType in place of an object"),
        (b"\xac\xed\x00\x05q\x00\x7e\x00\x00", "refers to an object that is not there"),
        (b"\xac\xed\x00\x05|" + struct.pack(">q", -1), "ends before its object does"),
        (b"\xac\xed\x00\x05" + b"s" * 99, "too deep"),
        (STORED["scala_2_12"].replace(b"\x03\x09\x02", b"\x03\x09\x03"), "code of its own"),
    ],
)
def test_refuses_by_name(data: bytes, said: str) -> None:
    """What is no plain object of the classes asked for, and what is damaged."""
    with pytest.raises(ConversionError, match=said):
        read_java_object(data, CLASSES)


def test_a_class_that_is_its_own_base_is_refused() -> None:
    """A chain of bases without an end."""
    name = b"scala.Some"
    own = b"\xac\xed\x00\x05sr" + struct.pack(">H", len(name)) + name + bytes(8) + b"\x02\x00\x00x"
    with pytest.raises(ConversionError, match="something else stands where a class should"):
        read_java_object(own + b"q\x00\x7e\x00\x00", CLASSES)


def test_a_long_chain_of_bases_is_refused() -> None:
    """It would take memory by the square of its length: each class lists all its bases."""
    name = struct.pack(">H", 10) + b"scala.Some"
    own = b"r" + name + bytes(8) + b"\x02\x00\x00x"
    classes = b"".join(b"v" + own + struct.pack(">BI", 0x71, 0x7E0000 + 2 * i) for i in range(60))
    fields = b"".join(struct.pack(">BHB", 0x4C, 1, 97) + b"p" for _ in range(61))
    whole = b"\xac\xed\x00\x05s"
    whole += b"r" + name + bytes(8) + b"\x02" + struct.pack(">H", 61) + fields + b"xp"
    with pytest.raises(ConversionError, match="too many bases"):
        read_java_object(whole + classes, CLASSES)


@pytest.mark.parametrize("stored", ["scala_2_12", "scala_2_13", "bounded"])
def test_damage_ends_in_a_named_error(stored: str) -> None:
    """Bytes changed, cut out and put in, each at random places."""
    rng = np.random.default_rng(0)
    whole = STORED[stored]
    refused = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(4, len(data)))
            damage = (
                bytes(rng.integers(0, 256, 1, np.uint8)),
                b"",
                bytes(rng.integers(0, 256, int(rng.integers(1, 9)), np.uint8)),
                rng.choice([b"\xff\xff\xff\xff", b"\x7f\xff", b"\0\0", b"sr", b"q\0~\0\1"]),
            )[rng.integers(4)]
            data[place : place + 1] = damage
        try:
            with reading("booster", "Save it anew."):
                assert isinstance(read_java_object(bytes(data), CLASSES), JavaObject)
        except ConversionError:
            refused += 1
    assert 1500 < refused < 3000
