"""Function classes: one interface, six families (theory room; Sections 3-4 of the paper)."""

from lpo.theory.classes.base import FunctionClass, Sensed, keep_probability
from lpo.theory.classes.box import Box
from lpo.theory.classes.finite import Finite
from lpo.theory.classes.glm import Glm
from lpo.theory.classes.linear import LinearBall, gaussian, kernel_ball
from lpo.theory.classes.neural import Neural

__all__ = [
    "Box",
    "Finite",
    "FunctionClass",
    "Glm",
    "LinearBall",
    "Neural",
    "Sensed",
    "gaussian",
    "keep_probability",
    "kernel_ball",
]
