import io

from tf_dynacomm.tools import reading_bar


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_much_has_been_read():
    terminal = _Terminal()
    bar = reading_bar.ReadingBar(4_000_000, terminal)
    bar(1_000_000)
    assert terminal.getvalue().endswith("] 1 of 4 MB")
    bar.close()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_it_is_not_drawn_for_every_chunk():
    terminal = _Terminal()
    bar = reading_bar.ReadingBar(10**9, terminal)
    for _ in range(1000):
        bar(1)
    assert terminal.getvalue().count("reading") < 100


def test_elsewhere_nothing_is_shown():
    file = io.StringIO()
    bar = reading_bar.ReadingBar(4, file)
    bar(1)
    bar.close()
    assert file.getvalue() == ""


def test_a_file_that_has_been_read_fills_the_bar():
    assert reading_bar.bar(7, 5).count("#") == reading_bar.bar(0, 0).count("#") == 30
