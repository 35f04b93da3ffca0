"""What a part of the rows gets of the sites before a round, and what comes of it afterwards.

The sites of all parts are with whoever leads the rounds. Everybody gets what is `common`; a part
gets what is `private` to it beside that, begins with the sites as it sees them, and gives back by
how much they have changed. Changes of several parts add up.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sepgp.gp.natural import Natural
from sepgp.inference import ep, held, parts
from sepgp.inference.method import Method, State, chosen
from sepgp.training.settings import Settings

BY_PART = "part"
"""The `n_factors` of a tied site for each part."""


@dataclass(frozen=True)
class View(ABC):
    """How parts of the rows see the sites of a method."""

    whole: Method
    """What makes the sites of all parts."""
    local: Method
    """What a part steps with."""
    counts: tuple[int, ...]
    """Rows of each part."""
    weights: tuple[float, ...]
    """Weight n_k of the rows of each part."""

    def init(self, n_inducing: int, latents: tuple[int, ...]) -> State:
        """Sites that say nothing yet."""
        return self.whole.init(n_inducing, sum(self.counts), True, latents)

    def common(self, sites: State) -> State:
        """What every part gets."""
        return sites

    def private(self, sites: State, part: int) -> Any:
        """What one part gets besides."""
        return None

    @abstractmethod
    def begin(self, common: State, private: Any, part: int) -> Any:
        """The sites as a part sees them; nothing that was handed in is written to."""

    @abstractmethod
    def change(self, before: Any, after: Any) -> tuple[Tensor, ...]:
        """By how much a part has changed what is common."""

    def own(self, before: Any, after: Any) -> Any:
        """What has become of the private sites."""
        return None

    @abstractmethod
    def merge(self, sites: State, change: Sequence[Tensor], own: dict[int, Any]) -> State:
        """All sites after a round. Cost O(m²), and the size of the private sites."""


class Tied(View):
    """Tied sites for the rows of all parts: a part moves its share n_k/n of them."""

    def begin(self, common: State, private: Any, part: int) -> held.State:
        """The part's share, and the rest, which is held."""
        share = self.weights[part] / sum(self.weights)
        return held.seen_from(common, held.times(share, common), self.weights[part])

    def change(self, before: held.State, after: held.State) -> tuple[Tensor, ...]:
        """The change of the share."""
        return tuple(held.minus(after.own, before.own))

    def merge(self, sites: State, change: Sequence[Tensor], own: dict[int, Any]) -> State:
        """The sum of all shares."""
        return held.plus(sites, type(sites)(*change))


class OwnSite(View):
    """A tied site for every part."""

    def common(self, sites: parts.State) -> Natural:
        """The product of all sites."""
        return Natural(sites.Lambda, sites.b)

    def private(self, sites: parts.State, part: int) -> Natural:
        """The site of the part."""
        return Natural(sites.part_Lambda[part].clone(), sites.part_b[part].clone())

    def begin(self, common: State, private: Natural, part: int) -> held.State:
        """The part's site, and those of the others, which are held."""
        return held.seen_from(common, private, self.weights[part])

    def change(self, before: held.State, after: held.State) -> tuple[Tensor, ...]:
        """None but that of the part's site."""
        return ()

    def own(self, before: held.State, after: held.State) -> Natural:
        """The change of the part's site."""
        return after.own - before.own  # type: ignore[no-any-return]

    def merge(self, sites: parts.State, change: Sequence[Tensor], own: dict[int, Any]) -> State:
        """The sites of all parts, and their product."""
        part_Lambda, part_b = sites.part_Lambda.clone(), sites.part_b.clone()
        for part, site in own.items():
            part_Lambda[part] += site.Lambda
            part_b[part] += site.b
        weight = torch.tensor(self.weights, dtype=torch.float64)
        return parts.State(part_Lambda.sum(0), part_b.sum(0), part_Lambda, part_b, weight)


class Filtered(View):
    """ADF: what the rows of a part say is added to the rest."""

    def begin(self, common: State, private: Any, part: int) -> Natural:
        """All that is known."""
        return Natural(common.Lambda, common.b)

    def change(self, before: State, after: State) -> tuple[Tensor, ...]:
        """What the rows have added."""
        return after.Lambda - before.Lambda, after.b - before.b

    def merge(self, sites: State, change: Sequence[Tensor], own: dict[int, Any]) -> State:
        """What all parts have added."""
        return sites + Natural(*change)


class PerRow(Filtered):
    """EP: a site for every row, in its own direction, and the rows of a part are its own."""

    def common(self, sites: ep.State) -> Natural:
        """The product of all sites."""
        return Natural(sites.Lambda, sites.b)

    def private(self, sites: ep.State, part: int) -> tuple[Tensor, ...]:
        """The sites of the part's rows."""
        assert sites.directions is not None
        rows = self._rows(part)
        return sites.nu[..., rows], sites.mu[..., rows], sites.directions[rows]

    def begin(self, common: State, private: Any, part: int) -> ep.State:  # type: ignore[override]
        """The product, and copies of the part's sites, since steps write into them."""
        return ep.State(common.Lambda, common.b, *(values.clone() for values in private))

    def own(self, before: ep.State, after: ep.State) -> tuple[Tensor | None, ...]:
        """The new sites of the rows."""
        return after.nu, after.mu, after.directions

    def merge(self, sites: ep.State, change: Sequence[Tensor], own: dict[int, Any]) -> State:
        """The new product, and the sites of all rows."""
        assert sites.directions is not None
        nu, mu, directions = sites.nu.clone(), sites.mu.clone(), sites.directions.clone()
        for part, (part_nu, part_mu, part_directions) in own.items():
            rows = self._rows(part)
            nu[..., rows], mu[..., rows], directions[rows] = part_nu, part_mu, part_directions
        product = Natural(sites.Lambda, sites.b) + Natural(*change)
        return ep.State(product.Lambda, product.b, nu, mu, directions)

    def _rows(self, part: int) -> slice:
        begin = sum(self.counts[:part])
        return slice(begin, begin + self.counts[part])


def view_of(
    settings: Settings, method: Method, counts: Sequence[int], weights: Sequence[float]
) -> View:
    """The view that the settings ask for, for parts of so many rows and weights.

    `method` is the one of the engine, but for a site per part.
    """
    sizes = tuple(counts), tuple(weights)
    if settings.n_factors == BY_PART and len(counts) > 1:
        several = chosen(settings.method, len(counts), settings.power)
        return OwnSite(several, held.with_own_site(settings.power), *sizes)
    if method.per_row:
        return PerRow(method, method, *sizes)
    if method.recounts:
        return Filtered(method, method, *sizes)
    return Tied(method, held.tied(method), *sizes)
