"""The commit that a program says it is made of."""

import subprocess

import pytest

from fibatchd.cli.commit import of_checkout

WHO = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one commit."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, *WHO, "commit", "--quiet", "-m", "first")
    return tmp_path


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_of_a_checkout(checkout):
    git(checkout, *WHO, "tag", "-a", "v1", "-m", "a tag is not what is asked for")
    assert of_checkout(checkout) == git(checkout, "rev-parse", "HEAD")


def test_of_a_checkout_that_was_changed(checkout):
    (checkout / "file").write_text("two")
    assert of_checkout(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_of_a_folder_inside_a_checkout(checkout):
    """As site-packages lie in a project's environment: that project is somebody else's."""
    (checkout / "inside").mkdir()
    assert of_checkout(checkout / "inside") is None


def test_where_git_cannot_tell(tmp_path, checkout, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert of_checkout(checkout) is None
