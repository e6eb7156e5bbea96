"""Places: how many requests there are at once, and how many bytes they hold."""

from __future__ import annotations

import pytest

from hbconv.serve.failures import RefusedError
from hbconv.serve.places import Places


def test_places_and_bytes_are_bounded_together():
    places = Places(2, 100)
    first, second = places.take(), places.take()
    with pytest.raises(RefusedError, match="2 requests are waiting") as refused:
        places.take()
    assert refused.value.status == 503
    first.hold(60)
    with pytest.raises(RefusedError, match="hold 60 bytes already, and this one 41 more"):
        second.hold(41)
    second.hold(40)
    first.hold(10)  # less is always taken
    second.hold(90)
    second.free()
    assert (places.taken, places.held) == (1, 10)
    with pytest.raises(RefusedError), places.one() as place:
        place.hold(91)
    assert (places.taken, places.held) == (1, 10)
