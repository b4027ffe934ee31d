"""The digits network in floating point, and its training: NumPy, float64, the same parameters at every run.

A fixed seed alone does not make training repeatable: the order in which matrix products are summed depends on
the processor and the BLAS library. Here that changes the trained parameters by less than 1e-12, and rounding
them to multiples of 2**-12 takes it away. The random numbers are those of `numpy.random.RandomState`, whose
streams NumPy keeps frozen.

Images are float64 [n, 8, 8, 1] of 0 to 1, activations [n, height, width, channels]. A convolution's weights
are [9 * channels in, channels out], the rows in the order kernel row, kernel column, channel.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

KERNEL: Final = 3
CHANNELS: Final = (1, 16, 32)
EPOCHS: Final = 20
BATCH: Final = 10
LEARNING_RATE: Final = 0.05
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-3
GRID: Final = 2.0**12
"""Trained parameters are multiples of 1/GRID: far finer than int8 steps, far coarser than rounding errors."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The network's weights and biases, or anything with the same shapes, such as their gradients."""

    conv1: Array
    conv1_bias: Array
    conv2: Array
    conv2_bias: Array
    dense: Array
    dense_bias: Array

    @classmethod
    def initial(cls, random: np.random.RandomState) -> Self:
        """Return random weights whose variance keeps the activations' variance; biases 0."""

        def weights(rows: int, columns: int, gain: float) -> Array:
            return np.asarray(random.standard_normal((rows, columns)) * np.sqrt(gain / rows))

        first, second, third = CHANNELS
        taps = KERNEL * KERNEL
        return cls(
            weights(taps * first, second, gain=2),
            np.zeros(second),
            weights(taps * second, third, gain=2),
            np.zeros(third),
            weights(4 * third, 10, gain=1),
            np.zeros(10),
        )

    def arrays(self) -> tuple[Array, ...]:
        """Return the six arrays, in the order of the fields."""
        return (self.conv1, self.conv1_bias, self.conv2, self.conv2_bias, self.dense, self.dense_bias)

    def on_grid(self) -> Self:
        """Return the parameters rounded to multiples of 1/GRID."""
        return type(self)(*(np.round(array * GRID) / GRID for array in self.arrays()))


@dataclass(frozen=True, slots=True)
class Activations:
    """Results of the network from images to logits; the patches and choices serve the gradients."""

    conv1_patches: Array
    conv1: Array
    conv1_choices: Indices
    conv2_patches: Array
    conv2: Array
    conv2_choices: Indices
    features: Array
    logits: Array


def forward(parameters: Parameters, images: Array) -> Activations:
    """Run the network on images [n, 8, 8, 1]; `features` is [n, 128] and `logits` [n, 10]."""
    patches1 = _patches(images)
    conv1 = np.maximum(patches1 @ parameters.conv1 + parameters.conv1_bias, 0)
    pool1, choices1 = _max_pool(conv1)
    patches2 = _patches(pool1)
    conv2 = np.maximum(patches2 @ parameters.conv2 + parameters.conv2_bias, 0)
    pool2, choices2 = _max_pool(conv2)
    features = pool2.reshape(len(images), -1)
    logits = features @ parameters.dense + parameters.dense_bias
    return Activations(patches1, conv1, choices1, patches2, conv2, choices2, features, logits)


def gradients(parameters: Parameters, images: Array, labels: Indices) -> Parameters:
    """Differentiate the mean cross-entropy of the softmax by every parameter."""
    seen = forward(parameters, images)
    scores = np.exp(seen.logits - seen.logits.max(axis=1, keepdims=True))
    logits = scores / scores.sum(axis=1, keepdims=True)
    logits[np.arange(len(labels)), labels] -= 1
    logits /= len(labels)

    features = (logits @ parameters.dense.T).reshape(seen.conv2_choices.shape)
    conv2 = _max_pool_back(features, seen.conv2_choices) * (seen.conv2 > 0)
    pool1 = _patches_back(conv2 @ parameters.conv2.T)
    conv1 = _max_pool_back(pool1, seen.conv1_choices) * (seen.conv1 > 0)
    return Parameters(
        _weights_gradient(seen.conv1_patches, conv1),
        conv1.sum(axis=(0, 1, 2)),
        _weights_gradient(seen.conv2_patches, conv2),
        conv2.sum(axis=(0, 1, 2)),
        seen.features.T @ logits,
        logits.sum(axis=0),
    )


def train(images: Array, labels: Indices, seed: int) -> Parameters:
    """Descend the gradient with momentum, the rate falling linearly to 0; the result is on the grid."""
    random = np.random.RandomState(seed)
    parameters = Parameters.initial(random)
    velocities = [np.zeros_like(array) for array in parameters.arrays()]
    starts = range(0, len(images), BATCH)
    for epoch in range(EPOCHS):
        order = random.permutation(len(images))
        for number, start in enumerate(starts):
            batch = order[start : start + BATCH]
            slopes = gradients(parameters, images[batch], labels[batch])
            rate = LEARNING_RATE * (1 - (epoch * len(starts) + number) / (EPOCHS * len(starts)))
            for array, velocity, slope in zip(parameters.arrays(), velocities, slopes.arrays(), strict=True):
                velocity *= MOMENTUM
                velocity -= rate * (slope + WEIGHT_DECAY * array)
                array += velocity
    return parameters.on_grid()


def accuracy(parameters: Parameters, images: Array, labels: Indices) -> float:
    """Return the share of images whose largest logit is their label's."""
    return float((forward(parameters, images).logits.argmax(axis=1) == labels).mean())


def _patches(maps: Array) -> Array:
    """Return the 3x3 neighborhood of each pixel, zeros outside: [n, h, w, 9 * channels]."""
    count, height, width, channels = maps.shape
    padded = np.zeros((count, height + 2, width + 2, channels))
    padded[:, 1:-1, 1:-1] = maps
    shifted = [
        padded[:, row : row + height, column : column + width]
        for row in range(KERNEL)
        for column in range(KERNEL)
    ]
    return np.concatenate(shifted, axis=-1)


def _patches_back(slopes: Array) -> Array:
    """Add up what `_patches` spread: the gradient by its argument."""
    count, height, width, size = slopes.shape
    taps = slopes.reshape(count, height, width, KERNEL, KERNEL, size // (KERNEL * KERNEL))
    padded = np.zeros((count, height + 2, width + 2, taps.shape[-1]))
    for row in range(KERNEL):
        for column in range(KERNEL):
            padded[:, row : row + height, column : column + width] += taps[:, :, :, row, column]
    return padded[:, 1:-1, 1:-1]


def _windows(maps: Array) -> Array:
    """Return the four values of each 2x2 window: [n, h/2, w/2, channels, 4]."""
    count, height, width, channels = maps.shape
    split = maps.reshape(count, height // 2, 2, width // 2, 2, channels)
    return split.transpose(0, 1, 3, 5, 2, 4).reshape(count, height // 2, width // 2, channels, 4)


def _max_pool(maps: Array) -> tuple[Array, Indices]:
    """Return the largest of each 2x2 window, and which of the four it was."""
    windows = _windows(maps)
    choices = windows.argmax(axis=-1)
    return np.take_along_axis(windows, choices[..., None], axis=-1)[..., 0], choices


def _max_pool_back(slopes: Array, choices: Indices) -> Array:
    """Put each window's gradient where its largest value was."""
    count, height, width, channels = slopes.shape
    windows = np.zeros((*slopes.shape, 4))
    np.put_along_axis(windows, choices[..., None], slopes[..., None], axis=-1)
    split = windows.reshape(count, height, width, channels, 2, 2).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(count, 2 * height, 2 * width, channels)


def _weights_gradient(patches: Array, slopes: Array) -> Array:
    return patches.reshape(-1, patches.shape[-1]).T @ slopes.reshape(-1, slopes.shape[-1])
