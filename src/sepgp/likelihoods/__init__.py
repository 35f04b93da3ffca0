"""Likelihoods: how a latent function makes labels. Each is a value behind one protocol."""

from sepgp.likelihoods.likelihood import Likelihood, Tilted
from sepgp.likelihoods.probit import Probit

__all__ = ["Likelihood", "Probit", "Tilted"]
