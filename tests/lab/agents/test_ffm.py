"""Fast and Forgetful Memory: the scan and its gradients, and the model as its equations say it."""

import torch

from sparsam.lab.agents.ffm import FFM, Scan


def test_the_scan_is_the_loop_and_so_are_its_gradients():
    torch.manual_seed(0)
    kept, added = (torch.randn(6, 2, 3, 2, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    states = [added[0]]
    for t in range(1, 6):
        states.append(kept[t] * states[-1] + added[t])
    torch.testing.assert_close(Scan.apply(kept, added), torch.stack(states))
    assert torch.autograd.gradcheck(Scan.apply, (kept, added))


def test_a_trace_fades_and_turns_as_its_equation_says():
    torch.manual_seed(0)
    model, x = FFM(3, 4, traces=5), torch.randn(7, 2, 3)
    begins = torch.zeros(7, 2, dtype=torch.bool)
    _, state = model(x, torch.zeros(2, model.state_size), begins)
    gated = model.into(x) * model.into_gate(x).sigmoid()
    wanted = 0
    for t in range(7):
        age = 6 - t
        size = torch.exp(-model.alpha.abs() * age)[:, None]
        turned = torch.polar(size.expand(-1, 4).contiguous(), (-model.omega * age).expand(5, -1).contiguous())
        wanted = wanted + gated[t][..., None] * turned
    torch.testing.assert_close(state, torch.view_as_real(wanted).flatten(1), atol=1e-5, rtol=1e-4)
