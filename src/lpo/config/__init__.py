"""The configuration of a run, made of the options of its parts.

``configure("lpo", env="lpo/SparseHopper-v0", beta=2.0)`` starts from a row of the table and a
preset, and sets options by their short names. These are the names of the flags of the command line.
The JSON of a configuration is nested like the object.

run.py       the class, and the parts that are chosen by name
paths.py     options by their short names
presets.py   from a row, a preset and options
files.py     to JSON and back
"""

from lpo.config.files import (
    for_acting,
    from_dict,
    from_json,
    read,
    renamed,
    to_dict,
    to_json,
    upgraded,
)  # fmt: skip
from lpo.config.paths import (
    Leaf,
    all_ours,
    axes_of,
    choices_of,
    flat,
    host_only,
    idle,
    leaves,
    new_name,
    replaced,
    shorts_of,
    unknown_option,
    with_axes,
    with_options,
    with_part,
)  # fmt: skip
from lpo.config.presets import PRESETS, Preset, as_row, configure
from lpo.config.run import (
    CHOICES,
    CheckpointOptions,
    Config,
    EvaluationOptions,
    LogOptions,
)  # fmt: skip

__all__ = [
    "CHOICES", "PRESETS", "CheckpointOptions", "Config", "EvaluationOptions", "Leaf", "LogOptions",
    "Preset", "all_ours", "as_row", "axes_of", "choices_of", "configure", "flat", "for_acting",
    "from_dict", "from_json", "host_only", "idle", "leaves", "new_name", "read", "renamed",
    "replaced", "shorts_of", "to_dict", "to_json", "unknown_option", "upgraded", "with_axes",
    "with_options", "with_part",
]  # fmt: skip
