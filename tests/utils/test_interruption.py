"""Signals are recorded and handled between two steps."""

import os
import signal
import threading

import pytest

from spectral_vmamba.utils.interruption import Interruption, interruptible


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_recorded_and_the_second_interrupts(number):
    previous = signal.getsignal(number)
    with interruptible() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested
        assert interruption.exit_code() == 128 + number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is previous


def test_handlers_are_restored_after_an_error():
    previous = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="work failed"), interruptible():
        raise ValueError("work failed")
    assert signal.getsignal(signal.SIGINT) is previous


def test_other_threads_do_not_install_handlers():
    results = []

    def work():
        before = signal.getsignal(signal.SIGINT)
        with interruptible() as interruption:
            results.append((signal.getsignal(signal.SIGINT) is before, interruption.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [(True, False)]


def test_handling_without_a_signal():
    interruption = Interruption()
    assert interruption.exit_code() == 128 + signal.SIGINT
    interruption.handle(signal.SIGTERM)
    assert interruption.exit_code() == 128 + signal.SIGTERM
