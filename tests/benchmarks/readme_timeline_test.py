import pytest

from benchmarks import readme_timeline

pytest.importorskip("matplotlib")


def test_picture_has_the_three_schedules(tmp_path):
    readme_timeline.main(tmp_path / "timeline.svg")
    svg = (tmp_path / "timeline.svg").read_text()
    assert "152 pulls, 152 pushes" in svg
    assert svg.index("<!-- Layer by layer -->") < svg.index("<!-- DynaComm -->")
