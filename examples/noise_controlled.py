"""A model that is a function of its noise: two policies are compared on the SAME noise, which removes most of the error."""

import numpy as np

from coreplan import NoiseModel


def initial(noise):  # [n, 1] uniforms -> [n, 1] states
    return noise.copy()


def step(states, actions, noise):  # noise [n, 1] in [0, 1); all randomness comes from it
    next_states = np.clip(states + 0.1 * (actions - 1)[:, None] + 0.2 * (noise - 0.5), 0, 1)
    return next_states[:, 0] - 0.05 * (actions == 2), next_states


model = NoiseModel(n_actions=3, initial=initial, step=step, noise_dimension=1, initial_noise_dimension=1)
rng = np.random.default_rng(0)
states = model.initial(rng, 1000)
up, stay = np.full(1000, 2), np.full(1000, 1)

noise = rng.random((1000, model.noise_dimension))
common = model.step_with(states, up, noise)[0] - model.step_with(states, stay, noise)[0]
fresh = model.step(rng, states, up)[0] - model.step(rng, states, stay)[0]
print(f"common noise: {common.mean():.4f}, standard deviation {common.std():.4f}")
print(f"fresh noise:  {fresh.mean():.4f}, standard deviation {fresh.std():.4f}")
assert common.std() < fresh.std()
