"""Content addressing: how similar a key is to each word, for the K words of a sparse read or all N of a dense one.

Which words are read by their order or their age instead stands with the memory that does so.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from sparsam import checks
from sparsam.memories.interface import Field
from sparsam.transforms import needs_plain_operations

SIMILARITIES = ("cosine", "euclidean", "dot")
EPSILON = 1e-6  # keeps the cosine of an all-zero word at 0


def similarity(kind: str, query: Tensor, words: Tensor) -> Tensor:
    """d(q, M(i)) of eq. content_based_read, for queries (B, R, W) and words (B, N, W) or (B, R, K, W).

    cosine: q·m / (|q| |m| + 1e-6);   euclidean: -|q - m|^2;   dot: q·m.   The result is (B, R, N) or (B, R, K).
    """
    if words.dim() == 3:
        words = words[:, None]
    if kind == "euclidean":
        return -(query[:, :, None] - words).square().sum(dim=-1)
    dot = (query[:, :, None] * words).sum(dim=-1)
    if kind == "dot":
        return dot
    norms: Tensor = torch.linalg.vector_norm(query, dim=-1)[:, :, None] * torch.linalg.vector_norm(words, dim=-1)
    return dot / (norms + EPSILON)


def most_similar(kind: str, query: Tensor, words: Tensor, k: int, among: Tensor | None = None) -> Tensor:
    """Rows (B, R, K) of the K most similar words per head, best first; ties go to the lowest row.

    Words where `among` (B, R, N) does not hold come last.
    """
    scores = similarity(kind, query.detach(), words.detach())
    if among is not None:
        scores = scores.masked_fill(~among, -torch.inf)
    return scores.sort(dim=-1, descending=True, stable=True).indices[..., :k]


def gather_words(words: Tensor, rows: Tensor) -> Tensor:
    """M(s_i): the words (B, R, K, W) at rows (B, R, K)."""
    batch, heads, k = rows.shape
    flat = rows.reshape(batch, heads * k, 1).expand(-1, -1, words.shape[-1])
    return words.gather(1, flat).view(batch, heads, k, -1)


def content_weights(kind: str, query: Tensor, strength: Tensor, words: Tensor) -> Tensor:
    """eq. content_based_read: softmax over the last dimension of beta * d(q, M(i)), strength beta (B, R)."""
    return torch.softmax(strength[..., None] * similarity(kind, query, words), dim=-1)


def weighted_sum(weights: Tensor, chosen: Tensor) -> Tensor:
    """eq. sparse_read_forward: r = sum_i w(s_i) M(s_i), (B, R, W) for weights (B, R, K) of words (B, R, K, W)."""
    return (weights[..., None] * chosen).sum(dim=-2)


# --- All N words at once ---


def dense_content_weights(kind: str, query: Tensor, strength: Tensor, words: Tensor) -> Tensor:
    """eq. content_based_read over all N words: softmax of beta * d(q, M(i)), (B, R, N), strength beta (B, R)."""
    if kind == "cosine" and not needs_plain_operations():
        scores = Cosine.apply(query, words)  # type: ignore[no-untyped-call]
    else:
        scores = dense_similarity(kind, query, words)
    return torch.softmax(strength[..., None] * scores, dim=-1)


def dense_similarity(kind: str, query: Tensor, words: Tensor) -> Tensor:
    """`similarity` (B, R, N) to all words (B, N, W) without its (B, R, N, W) product.

    Nothing is selected by these scores, so the order in which a matrix product sums does not matter.
    """
    if kind == "cosine":
        return query @ words.mT / (norm(query)[:, :, None] * norm(words)[:, None] + EPSILON)
    dot = query @ words.mT
    if kind == "dot":
        return dot
    return 2 * dot - query.square().sum(dim=-1)[:, :, None] - words.square().sum(dim=-1)[:, None]


def norm(vectors: Tensor) -> Tensor:
    """Lengths of vectors. The root of 0 has no derivative; an all-zero vector gets the derivative 0."""
    squares = vectors.square().sum(dim=-1)
    blank = squares == 0
    return torch.where(blank, 1.0, squares).sqrt() * ~blank


class Cosine(torch.autograd.Function):
    """`dense_similarity("cosine", ...)` with a backward pass of its own.

    Autograd gives each use of the memory a gradient tensor of the memory's size; written out, one is enough.
    s(h,i) = q_h·m_i / z(h,i) with z = |q_h| |m_i| + 1e-6. With g the gradient of s, and a = g / z, c = a s:

    dq_h = sum_i a(h,i) m_i - q_h / |q_h| sum_i c(h,i) |m_i|; dm_i = sum_h a(h,i) q_h - m_i / |m_i| sum_h c(h,i) |q_h|.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, words: Tensor) -> Tensor:
        query_norm = torch.linalg.vector_norm(query, dim=-1)
        word_norm = torch.linalg.vector_norm(words, dim=-1)
        scale = torch.bmm(query_norm[:, :, None], word_norm[:, None, :]).add_(EPSILON)
        scores = torch.bmm(query, words.mT).div_(scale)
        ctx.save_for_backward(query, words, query_norm, word_norm, scale, scores)
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        query, words, query_norm, word_norm, scale, scores = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient itself is to be differentiated
            query, words = query.view_as(query), words.view_as(words)  # neither comes from the other one
            wanted = [value for value in (query, words) if value.requires_grad]
            plain = dense_similarity("cosine", query, words)
            found = iter(torch.autograd.grad(plain, wanted, grad, create_graph=True))
            return tuple(next(found) if value.requires_grad else None for value in (query, words))
        direct = grad / scale
        through_norms = direct * scores
        to_query = to_words = None
        if ctx.needs_input_grad[0]:
            pull = torch.bmm(through_norms, word_norm[:, :, None]) / one_for_zero(query_norm)[..., None]
            to_query = torch.bmm(direct, words).addcmul_(query, pull, value=-1)
        if ctx.needs_input_grad[1]:
            pull = torch.bmm(query_norm[:, None, :], through_norms)[:, 0] / one_for_zero(word_norm)
            to_words = (words * pull[..., None]).baddbmm_(direct.mT, query, beta=-1)
        return to_query, to_words


def one_for_zero(norm: Tensor) -> Tensor:
    """The norm, or 1 for an all-zero vector, whose norm has the gradient 0."""
    return torch.where(norm == 0, 1.0, norm)


# --- Whole words, or the part of them that a mask lets through ---


class Addressing:
    """Whole keys with whole words, as in the paper. A memory is given another one when it is made."""

    masked: ClassVar[bool] = False
    options: ClassVar[dict[str, Any]] = {}  # the constructor's arguments that ask for it, where it is not the default

    def fields(self, heads: int, width: int) -> tuple[Field, ...]:
        """What it adds to the interface vector, after the memory's own fields."""
        return ()

    def key(self, key: Tensor, request: dict[str, Tensor]) -> Tensor:
        """Keys (B, R, W) as they are compared."""
        return key

    def words(self, words: Tensor, request: dict[str, Tensor]) -> Tensor:
        """Words (B, N, W), or (B, R, K, W) chosen per head, as they are compared."""
        return words

    def dense_weights(
        self, key: Tensor, strength: Tensor, words: Tensor, request: dict[str, Tensor], heads: slice
    ) -> Tensor:
        """C(M, k, beta) of Graves 2016 by cosine, (B, R, N); these are the keys `heads` of all in the request."""
        return dense_content_weights("cosine", key, strength, words)


class MaskedAddressing(Addressing):
    """`masked=True`: a head says which part of the words its key is to be compared with.

    Csordas and Schmidhuber 2019, "Improving Differentiable Neural Computers Through Memory Masking, De-allocation, and
    Link Distribution Sharpness Control". A key that holds part of a word finds it no better than chance where the
    unknown rest counts in the word's norm; with a mask m in (0, 1)^W, one to each key, the score is d(q m, M(i) m).
    """

    masked = True
    options: ClassVar = {"masked": True}

    def fields(self, heads: int, width: int) -> tuple[Field, ...]:
        return (Field("masks", (heads, width), "sigmoid"),)  # m

    def key(self, key: Tensor, request: dict[str, Tensor]) -> Tensor:
        return key * request["masks"]

    def words(self, words: Tensor, request: dict[str, Tensor]) -> Tensor:
        return (words[:, None] if words.dim() == 3 else words) * request["masks"][:, :, None]

    def dense_weights(
        self, key: Tensor, strength: Tensor, words: Tensor, request: dict[str, Tensor], heads: slice
    ) -> Tensor:
        return torch.softmax(strength[..., None] * masked_cosine(key, request["masks"][:, heads], words), dim=-1)


def masked_cosine(query: Tensor, mask: Tensor, words: Tensor) -> Tensor:
    """The cosine of q m and M(i) m for all N words (B, N, W) as matrix products: (B, R, N), no (B, R, N, W) tensor."""
    squares = mask.square()
    dot = (query * squares) @ words.mT
    lengths = squares @ words.square().mT  # |M(i) m|^2
    blank = lengths == 0
    word_norms = torch.where(blank, 1.0, lengths).sqrt() * ~blank  # the root of 0 has no finite gradient
    norms: Tensor = torch.linalg.vector_norm(query * mask, dim=-1, keepdim=True) * word_norms
    return dot / (norms + EPSILON)


def addressing(masked: bool) -> Addressing:
    """The one that a model's argument `masked` asks for."""
    return MaskedAddressing() if checks.boolean("masked", masked) else Addressing()
