"""The 19 corruptions of CIFAR-100-C, made on the spot: noise, blur, weather and digital, each in a file of its kind."""

from ._corrupt import CORRUPTIONS as CORRUPTIONS
from ._corrupt import corrupt as corrupt
