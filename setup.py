"""Installs electra_tf."""

import pathlib
import re

import setuptools

_ROOT = pathlib.Path(__file__).parent
_VERSION = re.search(
    r'__version__ = "(.+)"', (_ROOT / "electra_tf/__init__.py").read_text()
).group(1)

setuptools.setup(
    name="electra_tf",
    version=_VERSION,
    description="ELECTRA for TensorFlow 2 and Keras 3: pre-train, evaluate, "
    "serve",
    long_description=(_ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=setuptools.find_packages(include=["electra_tf", "electra_tf.*"]),
    python_requires=">=3.11,<3.14",
    install_requires=[
        "absl-py>=2.1",
        "etils[epath]>=1.9",
        "filelock>=3.16",
        "importlib_resources",  # tensorflow-datasets 4.9 forgets to name it
        "keras>=3.15,<3.16",
        "numpy>=1.26",
        "pyarrow>=18",
        "scikit-learn>=1.5",
        "scipy>=1.13",
        "sentencepiece>=0.2",
        "tensorflow>=2.21,<2.22",
        "tensorflow-datasets>=4.9.10",
        "tensorflow-text>=2.21.1,<2.22",
    ],
    extras_require={
        "test": [
            "hypothesis>=6.140",
            "jiwer>=4",
            "matplotlib>=3.9",
            "pytest>=8",
            "pytest-xdist>=3.6",
            "safetensors>=0.4.5",
            "scikit-learn>=1.5",
            "tokenizers>=0.22",
        ],
        "analysis": ["jiwer>=4", "matplotlib>=3.9", "scikit-learn>=1.5"],
        "dev": ["ruff>=0.17,<0.18"],
        # Beam's protobuf is older than what later sentencepieces need.
        "beam": ["apache-beam>=2.70", "sentencepiece<0.2.2"],
        "hf": ["safetensors>=0.4.5", "tokenizers>=0.22"],
        "hf-test": [
            "seqeval>=1.2",
            "torch>=2.5,<2.14",
            "transformers>=4.57",
        ],
        "onnx": ["onnxruntime>=1.31", "tf2onnx>=1.17,<1.18"],
        "tensorboard": ["tensorboard>=2.19"],
        "tflite": ["ai-edge-litert>=2.3"],
    },
)
