"""The one writer of files: the old file or the new one, and nothing else."""

import os
import stat
import threading

import pytest
import torch
from quick import assert_one_sentence

from sepgp.errors import WriteFailed
from sepgp.files import tensors
from sepgp.files.atomic import check, remove_leftovers, replacing


def write(path, text="new"):
    with replacing(path) as temporary:
        temporary.write_text(text)


def test_saving_through_a_symbolic_link_replaced_the_link(tmp_path):
    """Its target kept the old content."""
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "model", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path / "elsewhere") == ["model"]


def test_a_link_to_nothing_stays_and_gets_its_target(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_private_file_became_one_that_all_can_read(tmp_path, mode):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == mode
        temporary.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_private_model_file_became_one_that_all_can_read(tmp_path):
    """And a link to it was lost."""
    path, link = tmp_path / "model", tmp_path / "link"
    path.touch(0o600)
    link.symlink_to(path)
    tensors.write(link, {"a": torch.ones(2)}, {"b": 1})
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tensors.read(path)[1] == {"b": 1}


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_mode_that_the_umask_says(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "model")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o666 & ~umask


def test_the_umask_of_other_threads_was_zero_for_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
    threads = [threading.Thread(target=write, args=[tmp_path / "model"]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "model"
    path.write_text("old")
    expected = WriteFailed if isinstance(error, OSError) else type(error)

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(expected) as raised:
        fail()
    if isinstance(error, OSError):
        assert "(No space left on device); the file that is there is unchanged" in str(raised.value)
        assert_one_sentence(str(raised.value))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("name", [".", "no/model", "pipe", "loop"])
def test_a_place_for_no_file_is_told_before_the_work(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for attempt in (check, write):
        with pytest.raises(WriteFailed, match="cannot be written") as error:
            attempt(tmp_path / name)
        assert_one_sentence(str(error.value))
    assert sorted(os.listdir(tmp_path)) == ["loop", "pipe"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / "link").symlink_to("model[1]")
    (tmp_path / ".model[1].0123.tmp").touch()
    (tmp_path / ".model1.0123.tmp").touch()
    remove_leftovers(tmp_path / "link")
    assert sorted(os.listdir(tmp_path)) == [".model1.0123.tmp", "link"]


def test_a_file_that_was_replaced_while_it_was_read_was_called_damaged(tmp_path):
    """It was opened twice: the header came from one file and the tensors from the other."""
    path, done = tmp_path / "model", threading.Event()

    def replace():
        for k in range(300):
            tensors.write(path, {"x": torch.full((k % 50 + 1,), float(k))}, {"k": k})
        done.set()

    tensors.write(path, {"x": torch.zeros(1)}, {"k": 0})
    writer = threading.Thread(target=replace)
    writer.start()
    while not done.is_set():
        found, header = tensors.read(path)
        assert (found["x"] == header["k"]).all()
    writer.join()
