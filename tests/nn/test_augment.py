"""Changes to batches of images: what each gives, and that it is new in each call of a captured step."""

from __future__ import annotations

import numpy as np
import pytest

from whit import Tensor, TinyJit
from whit.errors import ArgumentError, ShapeError
from whit.nn.data import augment

pytestmark = pytest.mark.slow

IMAGES = np.arange(6 * 3 * 8 * 7, dtype=np.float32).reshape(6, 3, 8, 7) + 1


def images() -> Tensor:
    return Tensor(IMAGES)


def test_normalize_is_for_each_channel() -> None:
    found = augment.normalize(images(), [1.0, 2.0, 3.0], [2.0, 4.0, 8.0]).numpy()
    wanted = (IMAGES - np.array([1, 2, 3]).reshape(1, 3, 1, 1)) / np.array([2, 4, 8]).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    pixels = Tensor(np.full((1, 1, 2, 2), 255, np.uint8))
    assert augment.normalize(pixels, [0.5], [0.5]).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]


def test_images_are_flipped_or_not() -> None:
    Tensor.manual_seed(0)
    given = np.tile(IMAGES, (20, 1, 1, 1))
    found = augment.random_flip(Tensor(given)).numpy()
    is_flipped = (found == given[..., ::-1]).all((1, 2, 3))
    assert (is_flipped != (found == given).all((1, 2, 3))).all() and 40 < is_flipped.sum() < 80
    assert np.array_equal(augment.random_flip(images(), 1.0, -2).numpy(), IMAGES[:, :, ::-1])
    assert np.array_equal(augment.random_flip(images(), 0.0).numpy(), IMAGES)


def test_crops_are_parts_of_their_images() -> None:
    Tensor.manual_seed(1)
    seen = set()
    for _ in range(4):
        found = augment.random_crop(images(), (5, 4), padding=1).numpy()
        assert found.shape == (6, 3, 5, 4)
        around = np.pad(IMAGES, ((0, 0), (0, 0), (1, 1), (1, 1)))
        for image, part in zip(around, found, strict=True):
            places = [
                (top, left)
                for top in range(6)
                for left in range(6)
                if np.array_equal(image[:, top : top + 5, left : left + 4], part)
            ]
            assert len(places) == 1
            seen.add(places[0])
    assert len(seen) > 8
    assert np.array_equal(augment.random_crop(images(), (8, 7)).numpy(), IMAGES)
    with pytest.raises(ShapeError, match="random_crop: 9 x 9 of images of 8 x 7"):
        augment.random_crop(images(), 9)
    with pytest.raises(ShapeError, match=r"random_flip: \(3,\)"):
        augment.random_flip(Tensor.ones(3))


def test_erased_windows_are_of_one_number() -> None:
    found = augment.random_erase(images(), 1.0, (3, 3), value=-1.0).numpy()
    holes = (found == -1).all(1).sum((1, 2))
    assert ((found == -1) | (found == IMAGES)).all() and (holes <= 9).all() and (holes >= 1).all()


def test_brightness_and_contrast_are_of_each_image() -> None:
    factor = augment.random_brightness(images(), 0.5).numpy() / IMAGES
    assert (np.ptp(factor.reshape(6, -1), axis=1) < 1e-5).all() and np.ptp(factor) > 0.05
    found = augment.random_contrast(images(), 0.5).numpy()
    np.testing.assert_allclose(found.mean((1, 2, 3)), IMAGES.mean((1, 2, 3)), rtol=1e-4)


def test_mixup_and_cutmix_mix_labels_as_they_mix_images() -> None:
    x = Tensor(np.eye(6, dtype=np.float32).reshape(6, 6, 1, 1).repeat(8, 2).repeat(8, 3))
    y = Tensor(np.eye(6, dtype=np.float32))
    for mix in (augment.mixup, augment.cutmix):
        for _ in range(3):
            mixed, labels = mix(x, y, 1.0)
            np.testing.assert_allclose(mixed.mean((2, 3)).numpy(), labels.numpy(), atol=1e-5)
            np.testing.assert_allclose(labels.numpy().sum(1), 1, atol=1e-5)
    with pytest.raises(ShapeError, match="mixup: labels"):
        augment.mixup(x, Tensor([1, 2, 3, 4, 5, 0]))
    with pytest.raises(ArgumentError, match="alpha=9"):
        augment.mixup(x, y, 9)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0])
def test_shares_of_mixup_are_beta_numbers(alpha: float) -> None:
    Tensor.manual_seed(0)
    draw = TinyJit(lambda: augment.beta(alpha).realize())
    found = np.array([draw().item() for _ in range(600)])
    assert ((found >= 0) & (found <= 1)).all()
    assert abs(found.mean() - 0.5) < 0.06 and abs(found.var() - 1 / (4 * (2 * alpha + 1))) < 0.03


def test_a_captured_step_has_new_crops_in_each_call() -> None:
    step = TinyJit(lambda x: augment.random_crop(augment.random_flip(x), 4).realize())
    x = images().realize()
    assert len({step(x).numpy().tobytes() for _ in range(6)}) == 6
