"""Likelihoods: how a latent function makes labels. Each is a value behind one protocol."""

from sepgp.likelihoods.likelihood import Likelihood, Tilted
from sepgp.likelihoods.multinomial import Multinomial
from sepgp.likelihoods.power import PowerProbit
from sepgp.likelihoods.probit import Probit

__all__ = ["Likelihood", "Multinomial", "PowerProbit", "Probit", "Tilted", "for_classes"]


def for_classes(n_classes: int, power: float = 1.0) -> Likelihood:
    """The likelihood of this many classes: two have one latent function and a closed form.

    A power other than 1 is for two classes alone.
    """
    if n_classes > 2:
        return Multinomial(n_classes)
    return Probit() if power == 1 else PowerProbit(power)
