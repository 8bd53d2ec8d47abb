"""Functions that wrap environments: `lpo train --wrapper wrappers:doubled`."""

import gymnasium


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * float(reward)


def doubled(env):
    return Doubled(env)


def nothing(env):
    return None


def broken(env):
    raise RuntimeError("no wool")


number = 3
