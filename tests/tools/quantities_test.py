import pytest

from tf_dynacomm.tools import quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10Gbps", 1.25e9),
        ("2.5 Gbps", 3.125e8),
        ("250Mbit/s", 31.25e6),
        ("8kbps", 1e3),
        ("30MB/s", 30e6),
        ("1e3B/s", 1e3),
        ("8bps", 1),
        ("250mbit", 31.25e6),
        ("1gbit", 125e6),
        ("800kbit", 1e5),
        ("8bit", 1),
    ],
)
def test_rates(text, expected):
    assert quantities.rate_bytes_per_s(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["", "10", "Gbps", "-1Gbps", "nanGbps", "10ms", "10 gigabits", "1mbps"]
)
def test_what_is_no_rate(text):
    with pytest.raises(ValueError, match=r"must be a rate such as 10Gbps"):
        quantities.rate_bytes_per_s(text)


def test_rate_must_be_positive():
    with pytest.raises(ValueError, match=r"^a rate \(0Gbps\) must be positive\.$"):
        quantities.rate_bytes_per_s("0Gbps")


@pytest.mark.parametrize(
    ("read", "text"), [(quantities.rate_bytes_per_s, "1e999bit"), (quantities.time_s, "1e999s")]
)
def test_what_no_number_holds_is_refused(read, text):
    with pytest.raises(ValueError, match=rf"'{text}' must be finite"):
        read(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1ms", 1e-3), ("20us", 20e-6), ("20µs", 20e-6), ("0.5 s", 0.5), ("0s", 0)],
)
def test_times(text, expected):
    assert quantities.time_s(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("text", ["", "1", "ms", "-1ms", "1 minute", "1.2.3ms"])
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match=r"must be a time such as 1ms"):
        quantities.time_s(text)
