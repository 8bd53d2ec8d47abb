"""Networks: from the form of an observation to what policy and critics read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lpo.math.normalize import Observer, observer
from lpo.network.base import Network, NetworkPart
from lpo.types import MASK, Obs, ObsSpec


class Sight(NamedTuple):
    """How networks see an observation: ``view`` takes the mask out, ``observer`` normalises,
    ``body`` makes features."""

    obs: ObsSpec  # as the environment gives it
    seen: ObsSpec  # without the mask
    view: Callable[[Obs], Obs]
    observer: Observer
    body: Network

    @property
    def masked(self) -> bool:
        """Whether observations tell which choices are allowed."""
        return self.seen is not self.obs

    def allowed(self, obs: Obs) -> Any:
        """Returns the choices [..., P] that an observation allows; () where it does not say."""
        return obs[MASK] if self.masked else ()


def sight(network: NetworkPart, obs: ObsSpec) -> Sight:
    """Returns how the networks of ``network`` see observations of the form ``obs``."""
    seen, view = obs.seen
    watch = observer(seen, network.obs_clip, network.normalize_obs)
    return Sight(obs, seen, view, watch, network.make(seen))
