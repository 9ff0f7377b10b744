import pytest

from electra_tf.util import machine


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\n"
            "cpu family\t: 6\nmodel name\t: another\n",
            "AMD EPYC, family 25, model 17",
        ),
        ("processor\t: 0\nmodel name\t: Some ARM\n", "Some ARM"),
        ("", "x86_64"),
    ],
)
def test_processor_is_named_with_its_generation(monkeypatch, text, name):
    monkeypatch.setattr(machine, "read_proc", lambda _: text)
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    assert machine.cpu_name() == name
