"""What a laboratory stands on: root of this machine, or the namespaces of an ordinary user (decision 55)."""

from penstock.lab.ground.as_root import AsRoot
from penstock.lab.ground.base import Ground
from penstock.lab.ground.rootless import Rootless
from penstock.lab.user import ordinary_user

__all__ = ["GROUND", "Ground"]

GROUND: Ground = AsRoot() if ordinary_user() is None else Rootless()
