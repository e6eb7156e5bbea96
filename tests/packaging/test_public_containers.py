"""Every container class is imported from one place."""

from __future__ import annotations

import hbconv.containers
from hbconv.containers import NODES


def test_every_container_is_imported_from_hbconv_containers():
    own = {name: cls for name, cls in NODES.items() if cls.__module__.startswith("hbconv.")}
    public = {name: getattr(hbconv.containers, name, None) for name in own}
    assert public == own
    assert set(own) <= set(hbconv.containers.__all__)
