"""A short attack; ``tests/system/attack_server.py`` is the long one, and measures stalls."""

from __future__ import annotations

from attack_bodies import attack
from attack_server import run


def test_hostile_requests_end_no_worker_and_spoil_no_answer():
    found = run(range(60), body_mb=2, swap_seconds=2.0, kill_seconds=3.0)
    assert [what for kind, what in found.findings if kind != "hung"] == []
    assert found.tried == 60
    assert found.honest["right"] > 10
    assert found.statuses["400"] > 10


def test_a_number_makes_the_same_request_again():
    made = [attack(number, 1 << 16) for number in range(200)]
    assert made == [attack(number, 1 << 16) for number in range(200)]
    assert {one.door for one in made} == {"http", "grpc"}
    assert len({one.kind for one in made}) > 50
