"""Likelihoods: how a latent function makes labels. Each is a value behind one protocol."""

from sepgp.likelihoods.likelihood import Likelihood, Tilted
from sepgp.likelihoods.multinomial import Multinomial
from sepgp.likelihoods.probit import Probit

__all__ = ["Likelihood", "Multinomial", "Probit", "Tilted", "for_classes"]


def for_classes(n_classes: int) -> Likelihood:
    """The likelihood of this many classes: two have one latent function and a closed form."""
    return Probit() if n_classes == 2 else Multinomial(n_classes)
