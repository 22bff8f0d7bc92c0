"""Earlier address of `sync`; import it from `skpref.tracking`."""

from skpref.tracking.spool import Synced, sync

__all__ = ["Synced", "sync"]
