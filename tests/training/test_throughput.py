"""Images per second and waiting time."""

from contextlib import suppress

from spectral_vmamba.training.throughput import Throughput


def test_images_per_second_and_share_of_waiting(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    throughput = Throughput()
    with throughput.waiting():
        now[0] += 1.0
    now[0] += 3.0
    throughput.images += 20
    assert throughput.seconds() == 4.0
    assert throughput.waiting_share() == 0.25
    assert throughput.images_per_second() == 5.0


def test_waiting_that_fails_is_counted(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    throughput = Throughput()
    with suppress(StopIteration), throughput.waiting():
        now[0] += 2.0
        next(iter(()))
    assert throughput.waiting_seconds == 2.0
