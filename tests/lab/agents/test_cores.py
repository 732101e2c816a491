"""Every core: step by step is the whole sequence, whatever begins where, and the sizes are matched."""

import pytest
import torch

from sparsam.lab.agents import cores

INPUTS, TIME, BATCH = 5, 23, 6


def core_of(name):
    torch.manual_seed(0)
    return cores.make(name, INPUTS)


def scene():
    torch.manual_seed(1)
    begins = torch.rand(TIME, BATCH) < 0.15
    begins[0] = True
    return torch.randn(TIME, BATCH, INPUTS), begins


@pytest.mark.parametrize("name", cores.CORES)
@pytest.mark.parametrize("cut", [0, 9])
def test_step_by_step_is_the_sequence(name, cut):
    core, (x, begins) = core_of(name), scene()
    state, wanted, states = core.initial(BATCH), [], []
    for t in range(TIME):
        states.append(state)
        y, state = core.step(x[t], state, begins[t])
        wanted.append(y)
    found = core.sequence(x[cut:], states[cut], begins[cut:])
    torch.testing.assert_close(found, torch.stack(wanted[cut:]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", cores.CORES)
def test_a_part_of_the_batch_is_as_in_the_whole(name):
    core, (x, begins) = core_of(name), scene()
    state = core.initial(BATCH)
    for t in range(5):
        state = core.step(x[t], state, begins[t])[1]
    whole = core.sequence(x[5:], state, begins[5:])
    part = torch.tensor([4, 1])
    torch.testing.assert_close(
        core.sequence(x[5:, part], state[part], begins[5:, part]), whole[:, part], atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("name", cores.CORES)
def test_pieces_of_one_episode_are_the_whole(name):
    core, (x, _) = core_of(name), scene()
    whole, _ = core.run(x, core.initial(BATCH))
    first, state = core.run(x[:9], core.initial(BATCH))
    torch.testing.assert_close(torch.cat([first, core.run(x[9:], state)[0]]), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", cores.CORES)
def test_as_many_parameters_as_sam(name):
    most = cores.parameters(core_of("sam"))
    if name in ("sam", "sdnc"):
        assert cores.parameters(core_of(name)) < 1.2 * most
    else:
        assert 0.95 * most < cores.parameters(core_of(name)) <= most
