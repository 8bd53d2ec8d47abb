"""Engine on a device: Algorithm 7 for many runs at once.

state.py      what a program changes: trees of arrays with an axis of runs
setting.py    what is fixed in it: shapes, parts, environment
collect.py    lines 5 and 6
learn.py      lines 7 to 10
evaluate.py   episodes of frozen policies
program.py    the compiled functions, and the face of the room
"""

from lpo.engine.device.program import Program
from lpo.engine.device.setting import defines_success
from lpo.engine.device.state import Axes, Group, Walk, host

__all__ = ["Axes", "Group", "Program", "Walk", "defines_success", "host"]
