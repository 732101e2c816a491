"""Masked content addressing in small cases worked out by hand."""

from __future__ import annotations

import pytest
import torch

from sparsam.memories.addressing import MaskedAddressing, masked_cosine, similarity

ADDRESSING = MaskedAddressing()


def masked_words(words, mask):
    return ADDRESSING.words(words, {"masks": mask})


def masked_content_weights(query, strength, mask, words):
    return ADDRESSING.dense_weights(query, strength, words, {"masks": mask}, slice(None))


def inputs():
    query, mask = torch.randn(2, 3, 4, dtype=torch.float64), torch.rand(2, 3, 4, dtype=torch.float64)
    return query, mask, torch.randn(2, 5, 4, dtype=torch.float64)


def test_a_key_with_an_unknown_half_finds_its_word_exactly():
    query = torch.tensor([[[3.0, 4.0, 7.0, 7.0]]], dtype=torch.float64)  # the second half is noise
    words = torch.tensor([[[3.0, 4.0, -5.0, 1.0], [7.0, 7.0, 7.0, 7.0]]], dtype=torch.float64)
    mask = torch.tensor([[[1.0, 1.0, 0.0, 0.0]]], dtype=torch.float64)
    # 25 / (5 * 5) and 49 / (5 * 7 sqrt 2), up to the 1e-6 in the denominator
    expected = torch.tensor([[[1.0, 1.4 / 2**0.5]]], dtype=torch.float64)
    torch.testing.assert_close(masked_cosine(query, mask, words), expected, rtol=1e-6, atol=0)
    unmasked = similarity("cosine", query, words)[0, 0]
    assert unmasked[0] < unmasked[1]  # without the mask the wrong word wins


def test_matrix_products_equal_the_plain_form():
    query, mask, words = inputs()
    words[0, 1] = 0.0
    plain = similarity("cosine", query * mask, masked_words(words, mask))
    torch.testing.assert_close(masked_cosine(query, mask, words), plain)


def test_a_mask_of_ones_is_no_mask():
    query, mask, words = inputs()
    torch.testing.assert_close(masked_cosine(query, torch.ones_like(mask), words), similarity("cosine", query, words))


def test_words_already_chosen_per_head_are_masked_by_their_own_head():
    chosen, mask = torch.ones(1, 2, 3, 2), torch.tensor([[[1.0, 0.0], [0.5, 2.0]]])
    assert masked_words(chosen, mask)[0, :, 0].tolist() == [[1.0, 0.0], [0.5, 2.0]]


@pytest.mark.parametrize("blank", [False, True])
def test_gradcheck(blank):
    query, mask, words = inputs()
    if blank:  # a blank word has a score of 0 and no gradient of its norm, but one of its product with the query
        words[0, 1] = 0.0
        words.requires_grad_()
        masked_cosine(query, mask, words).sum().backward()
        assert words.grad is not None and torch.isfinite(words.grad).all()
        return
    strength = 1 + torch.rand(2, 3, dtype=torch.float64)
    values = [value.requires_grad_() for value in (query, strength, mask, words)]
    assert torch.autograd.gradcheck(masked_content_weights, values)
