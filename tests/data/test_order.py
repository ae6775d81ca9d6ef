"""The images of each training step are a function of seed and step."""

from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.data.order import TrainingOrder


@given(st.integers(1, 60), st.integers(1, 16), st.integers(0, 5))
def test_an_epoch_visits_every_image_at_most_once(images, batch_size, seed):
    order = TrainingOrder(images, batch_size, seed)
    steps = order.steps_per_epoch
    keys = [key for batch in order.micro_batches(3 * steps, 4 * steps, 1, 0, 1) for key in batch]
    assert {key.epoch for key in keys} == {3}
    indices = [key.image for key in keys]
    assert len(set(indices)) == len(indices) == min(steps * batch_size, images)


@given(st.integers(0, 30), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_processes_and_micro_batches_share_the_same_batch(first, accumulate, world_size):
    order = TrainingOrder(50, 16, seed=3)
    whole = [[key.image for key in batch] for batch in order.micro_batches(first, first + 4, 1, 0, 1)]
    shares = [list(order.micro_batches(first, first + 4, accumulate, rank, world_size)) for rank in range(world_size)]
    for step in range(4):
        union = [
            key.image
            for part in range(accumulate)
            for rank in range(world_size)
            for key in shares[rank][step * accumulate + part]
        ]
        assert union == whole[step]


def test_a_later_start_gives_the_rest_of_the_same_order():
    order = TrainingOrder(50, 16, seed=0)
    whole = list(order.micro_batches(0, 12, 2, 0, 1))
    assert list(order.micro_batches(5, 12, 2, 0, 1)) == whole[10:]


def test_epochs_and_seeds_have_different_orders():
    orders = [TrainingOrder(50, 16, seed).shuffle(epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(50)) for order in orders)
