"""Networks: what makes features of an observation, for the policy and the critics to read.

base.py       the contract, the options, and the MLP, whose features are the vector itself
cnn.py        encoders for the leaves of a tree of observations
memory.py     GRU and LSTM over them
graph.py      the same as an ONNX graph
own.py        functions or modules of the user
sight.py      form of observation → networks: masks out, normalised, encoded
stretches.py  going through rollouts and minibatches in the order of time
"""

from lpo.network.base import MLP, Network, NetworkPart, feed_forward
from lpo.network.cnn import CNN, Auto
from lpo.network.memory import GRU, LSTM
from lpo.network.own import Own
from lpo.network.sight import Sight, sight

__all__ = [
    "CNN",
    "GRU",
    "LSTM",
    "MLP",
    "Auto",
    "Network",
    "NetworkPart",
    "Own",
    "Sight",
    "feed_forward",
    "sight",
]
