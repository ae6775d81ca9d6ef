"""What can go wrong in training, explained: unreadable images, crashed workers, lost processes."""

from collections.abc import Callable, Iterable, Sequence

from spectral_vmamba.data.unreadable import UNREADABLE_FILE, ReadError, summarize_unreadable, write_unreadable
from spectral_vmamba.training.run import RunFolder
from spectral_vmamba.training.step import TrainingError
from spectral_vmamba.training.task import TrainingImages
from spectral_vmamba.utils.wording import plural

_LOST_PROCESS = ("Connection closed by peer", "Connection reset", "gloo", "NCCL")


class UnreadableImages:
    """Lists unreadable images in the run's folder, and raises an error if too many training images are unreadable."""

    def __init__(self, dataset: TrainingImages, max_share: float, folder: RunFolder, note: Callable[[str], None]):
        self.dataset, self.max_share, self.folder, self.note = dataset, max_share, folder, note
        self.errors: dict[int, ReadError] = {}
        self.validation: list[ReadError] = []

    def add_validation(self, errors: Sequence[ReadError]) -> None:
        """The unreadable images of the whole validation set: reported once, not after every pass."""
        if errors and not self.validation:
            count = plural(len(errors), "validation image")
            self.note(f"{count} ignored: {summarize_unreadable(errors)} ({errors[0].explanation})")
            self.validation = list(errors)
            self._write()

    def add(self, errors: Iterable[ReadError]) -> None:
        new = {error.index: error for error in errors if error.index not in self.errors}
        if not new:
            return
        self.errors |= new
        for i in sorted(new):
            self.note(f"ignored: {new[i].explanation}")
        self._write()
        allowed = max(self.max_share * len(self.dataset), 1) if self.max_share else 0
        if len(self.errors) > allowed:
            names = summarize_unreadable(self.errors[i] for i in sorted(self.errors))
            raise ValueError(
                f"{len(self.errors)} of {plural(len(self.dataset), 'training image')} cannot be used, more than "
                f"{self.max_share:.2%}: {names} ({self.errors[min(self.errors)].explanation}); all are listed, with "
                f"reasons, in {self.folder.path / UNREADABLE_FILE}. Remove them, "
                "or allow more with --max-unreadable"
            )

    def _write(self) -> None:
        write_unreadable(self.folder.path, self.errors.values(), self.validation)


def explain_failure(error: Exception, folder: RunFolder) -> Exception:
    """The error, or a clearer one that names the last checkpoint."""
    saved = f"the last checkpoint is {folder.last}" if folder.last.exists() else "no checkpoint was saved yet"
    if isinstance(error, TrainingError):
        return TrainingError(f"{error} ({saved})")
    text = str(error)
    if isinstance(error, ValueError):  # raised in a worker, its message is the last line of the traceback
        return ValueError(text.splitlines()[-1].removeprefix("ValueError: ")) if "DataLoader" in text else error
    if "DataLoader worker" in text:
        return OSError(f"a data loading process died, possibly out of memory; {saved}. {text}")
    if any(word in text for word in _LOST_PROCESS):
        return OSError(f"another process of this job died; resume with --resume: {saved}. {text.splitlines()[0]}")
    return error
