"""Writes `digits.npz` from the copy of the data set that scikit-learn ships.

pip install 'scikit-learn==1.9.1'
python testdata/make_digits.py
"""

import pathlib

import numpy as np
from sklearn import datasets


def main() -> None:
    """Writes the images (uint8, 0 to 16) and their labels (uint8, 0 to 9) beside this file."""
    digits = datasets.load_digits()
    np.savez_compressed(
        pathlib.Path(__file__).with_name("digits.npz"),
        images=digits.images.astype(np.uint8),
        labels=digits.target.astype(np.uint8),
    )


if __name__ == "__main__":
    main()
