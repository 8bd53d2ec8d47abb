"""Engine on a device: Algorithm 7 for many runs at once.

state.py      what a program changes: trees of arrays with an axis of runs
setting.py    what is fixed in it: shapes, parts, environment
collect.py    lines 5 and 6
learn.py      lines 7 to 10
evaluate.py   episodes of frozen policies
program.py    the compiled functions
trainer.py    the runs as a trainer (``lpo.engine.trainer``)
"""

from lpo.engine.device.program import Program
from lpo.engine.device.setting import defines_success
from lpo.engine.device.state import Axes, Group, Walk, host
from lpo.engine.device.trainer import GroupTrainer

__all__ = ["Axes", "Group", "GroupTrainer", "Program", "Walk", "defines_success", "host"]
