import dataclasses
import json
from typing import ClassVar

import pytest

from electra_tf.util import config_files, config_flags
from electra_tf.util.config_fields import Checked, bounded, one_of
from electra_tf.util.errors import (
    DirectoryInUseError,
    NonFiniteLossError,
    StoppedBySignal,
    UserError,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Fast(Checked):
    rate: float = 0.5
    """Updates
    per second."""

    steps: int = bounded("at least 1", 10)
    """Updates."""

    fractions: tuple[float, ...] = (0.25, 0.5)
    """Where to look."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Free:
    data_dir: str = ""
    """Where."""

    use_cache: bool = True
    """Keep it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Config:
    """A run."""

    free: _Free = _Free()
    fast: _Fast = _Fast()
    width: int | None = None
    """Width. Default: by its size."""

    limit: float | None = None
    """Limit. Default: none."""

    sources: tuple[str, ...] = ()
    """Sources."""

    corpus: tuple[str, ...] = ()
    """Files."""

    device: str = one_of("auto", "cpu")
    """Where to compute."""

    ORIGINAL_FLAGS: ClassVar = {"out_dir": "data_dir"}
    ORIGINAL_NAMES: ClassVar = {"on_cpu": {True: {"device": "cpu"}, False: {}}}


def _parse(*arguments):
    return config_flags.parse(_Config, arguments)


def _run(monkeypatch, main, *arguments):
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    with pytest.raises(SystemExit) as end:
        config_flags.run(main, _Config)
    return int(end.value.code)


def test_values_not_given_keep_their_defaults():
    assert _parse() == _Config()


def test_each_kind_of_value_is_read():
    config = _parse(
        "--data_dir=a=b c",
        "--nouse_cache",
        "--rate",
        "-1e-3",
        "--steps=1_000",
        "--fractions=.5, 1",
        "--width=3",
        "--device=cpu",
    )
    assert config == _Config(
        free=_Free(data_dir="a=b c", use_cache=False),
        fast=_Fast(rate=-1e-3, steps=1000, fractions=(0.5, 1.0)),
        width=3,
        device="cpu",
    )


def test_repeated_and_comma_separated_texts_add_up():
    config = _parse("--sources=a,b", "--sources", "c", "--sources=")
    assert config.sources == ("a", "b", "c")


def test_texts_of_a_flagfile_are_replaced_not_added_to(tmp_path):
    file, other = tmp_path / "x.cfg", tmp_path / "y.cfg"
    file.write_text("--sources=a\n--sources=b\n--steps=2\n")
    other.write_text("--sources=z\n")
    flagfile = f"--flagfile={file}"
    assert _parse(flagfile).sources == ("a", "b")
    config = _parse(flagfile, "--sources=c", "--sources", "d")
    assert (config.sources, config.fast.steps) == (("c", "d"), 2)
    assert _parse(flagfile, f"--flagfile={other}").sources == ("z",)
    assert _parse("--sources=c", flagfile).sources == ("a", "b")
    hparams = '--hparams={"sources": ["h"]}'
    assert _parse(hparams, "--sources=c").sources == ("c",)


def test_dashes_in_flag_names_are_underscores():
    for words in (["--data-dir", "x-y"], ["--data-dir=x-y"]):
        assert _parse(*words).free.data_dir == "x-y"


@pytest.mark.parametrize(
    "value", ["-well-known", "-a-b=c-d", "--use-cache", "--data-dir=a-b", "-"]
)
def test_a_value_that_is_a_word_of_its_own_is_kept(value):
    config = _parse("--data-dir", value, "--nouse-cache")
    assert config.free == _Free(data_dir=value, use_cache=False)


def test_names_of_the_original_are_ours_but_not_in_values():
    assert _parse("--out-dir", "a").free.data_dir == "a"
    assert _parse("--out_dir=--out_dir=a").free.data_dir == "--out_dir=a"
    assert _parse("--data_dir", "--out_dir=a").free.data_dir == "--out_dir=a"
    assert _parse('--hparams={"out_dir": "a"}').free.data_dir == "a"


def test_a_tilde_is_the_home_directory_where_a_flag_names_files(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x.cfg").write_text("--data_dir=~/x")
    (tmp_path / "x.json").write_text('{"data_dir": "~/x"}')
    for words in (
        ["--data_dir=~/x"],
        ["--data_dir", "~/x"],
        ["--flagfile=~/x.cfg"],
        ["--hparams=~/x.json"],
    ):
        assert _parse(*words).free.data_dir == f"{tmp_path}/x"
    config = _parse("--corpus=~/a,gs://b/~/c,~", "--corpus", "d~/e")
    home = str(tmp_path)
    assert config.corpus == (f"{home}/a", "gs://b/~/c", home, "d~/e")
    assert _parse("--data_dir=a, ~/b").free.data_dir == f"a, {tmp_path}/b"
    assert _parse("--sources=~/x,~").sources == ("~/x", "~")


def test_later_flags_win(tmp_path):
    file = tmp_path / "x.cfg"
    file.write_text("--steps=2\n--rate=2\n")
    config = _parse("--steps=1", f"--flagfile={file}", "--rate=3")
    assert (config.fast.steps, config.fast.rate) == (2, 3.0)


def test_flagfile_may_hold_comments_blank_lines_and_spaces(tmp_path):
    file = tmp_path / "x.cfg"
    file.write_bytes(b"# a\r\n// b\r\n\r\n  --steps=2  \r\n--nouse_cache")
    config = _parse("--flagfile", str(file))
    assert config.fast.steps == 2
    assert not config.free.use_cache


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# x\nsteps=3", r"must be --name=value. Received in .*, line 2: 'st"),
        (b"--steps 3", "must be --name=value"),
        (b"--", "must be --name=value"),
        (b"3", "must be --name=value"),
        (b"--steps=3 # x", "comment .* line of its own.*line 1"),
        (b"--data_dir=x # y", "comment .* line of its own"),
        (b'--data_dir="x"', "without quotation marks"),
        (b"\xef\xbb\xbf--steps=3", "byte-order mark"),
        (b"--data_dir=\xff", "UTF-8 text file"),
        (b"--flagfile=y.cfg", "must not name another"),
        (b"\n--stepz=3", "Unknown flag in .*line 2: --stepz. .* --steps?"),
        (b"\n--steps=x", "steps=x.*line 2"),
        (b"--steps", "Missing value.*line 1"),
    ],
)
def test_mistakes_in_a_flagfile_are_named(tmp_path, content, message):
    file = tmp_path / "x.cfg"
    file.write_bytes(content)
    with pytest.raises(UserError, match=message):
        _parse(f"--flagfile={file}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["word"], "must belong to a flag.* on the command line: word"),
        (["--use_cache", "false"], "command line: false"),
        (["--", "--steps=3"], "command line: --steps=3"),
        (["--stepz=3"], "Unknown flag on the command line: --stepz.*--steps"),
        (["--zzz"], "Unknown flag .*--zzz. See --help."),
        (
            ["--" + 5000 * "z"],
            "Unknown flag .*the name is too long. See --help.",
        ),
        (
            ["--steps=1e3"],
            "^`steps` must be a whole number. Received: --steps=1e3 .on the "
            "command line.. Set --steps=1000.$",
        ),
        (
            ["--steps=" + 5000 * "9"],
            "^`steps` must be a whole number.*--steps=9{40} .*See --help.$",
        ),
        (
            ["--width=2.5"],
            "`width` must be a whole .*width=2.5 .* See --help.$",
        ),
        (
            ["--use_cache=no"],
            "^`use_cache` must be true or false. Received: --use_cache=no .on "
            "the command line.. Set --use_cache or --nouse_cache.$",
        ),
        (
            ["--rate=fast"],
            "`rate` must be a number.*--rate=fast .* See --help.$",
        ),
        (
            ["--limit=none"],
            "^`limit` must be a number.*--limit=none .* See --help.$",
        ),
        (
            ["--fractions=1,x"],
            "`fractions` must be numbers with commas.*fractions=1,x",
        ),
        (["--device=gpu"], "should be one of <auto.cpu> .on the command"),
        (["--nouse_cache=true"], "does not take"),
        (["--steps"], "Missing value"),
        (["--steps=0"], "`steps` must be at least 1. Received: steps=0."),
        (["--flagfile=missing.cfg"], "missing.cfg"),
        (["--flagfile=~nobody-is-called-so/x"], "must name a UTF-8 text file"),
        (["--data_dir=\udcff"], r"UTF-8 text.* on the command line: .*udcff"),
        (["--data_dir", "a\0b"], r"without NUL.* on the command line: .*x00b"),
        ([f"--steps={2**63}"], "`steps` must be of the type int.*2.63"),
        (["--rate=inf"], "`rate` must be of the type float.*finite"),
        (["--fractions=nan"], "`fractions` must be of the type .*finite"),
        (["--flagfile="], "must name a UTF-8 text file"),
        (["--flagfile"], "must name a UTF-8 text file"),
    ],
)
def test_mistakes_on_the_command_line_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        _parse(*arguments)


def test_hparams_are_values_by_name(tmp_path):
    hparams = {
        "rate": 1,
        "steps": 1e3,
        "fractions": [0.5, 1],
        "width": None,
        "limit": None,
        "sources": ["a", "b"],
        "use_cache": False,
        "on_cpu": True,
    }
    expected = _Config(
        free=_Free(use_cache=False),
        fast=_Fast(rate=1.0, steps=1000, fractions=(0.5, 1.0)),
        sources=("a", "b"),
        device="cpu",
    )
    assert _parse("--hparams", json.dumps(hparams)) == expected
    file = tmp_path / "h.json"
    file.write_text(json.dumps(hparams))
    assert _parse(f"--hparams={file}") == expected


def test_explicit_flags_win_over_hparams_wherever_they_stand(tmp_path):
    file = tmp_path / "x.cfg"
    file.write_text("--rate=2")
    config = _parse(
        "--steps=2", f"--flagfile={file}", '--hparams={"steps": 3, "rate": 3}'
    )
    assert (config.fast.steps, config.fast.rate) == (2, 2.0)


@pytest.mark.parametrize(
    ("hparams", "message"),
    [
        ("{", "must be a JSON dictionary"),
        ("[1]", "no dictionary"),
        ("missing.json", "missing.json"),
        ("", "must be a JSON dictionary"),
        ('{"stepz": 1}', "Unknown flag in --hparams: --stepz.*--steps?"),
        ('{"steps": 1.5}', "steps=1.5"),
        ('{"steps": true}', "steps=true"),
        (f'{{"width": {10**400}}}', "`width` must be of the type .*finite"),
        ('{"rate": 1e999}', "`rate` must be of the type float.*finite"),
        ("[" * 10**5, "nest too deeply"),
        ('{"x": ' * 10**5 + "1" + "}" * 10**5, "nest too deeply"),
        ('{"fractions": ' + "[" * 600 + "]" * 600 + "}", "a list inside"),
        ('{"on_cpu": [1]}', "Unknown flag in --hparams: --on_cpu"),
        ('{"x": ' * 700 + "1" + "}" * 700, "Unknown flag in --hparams: --x"),
        ('{"data_dir": "\\ud800"}', "UTF-8 text.* in --hparams"),
        ('{"on_cpu": "yes"}', "Unknown flag in --hparams: --on_cpu"),
    ],
)
def test_mistakes_in_hparams_are_named(hparams, message):
    with pytest.raises(UserError, match=message):
        _parse(f"--hparams={hparams}")


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (None, 0, ""),
        (RuntimeError("bug"), 1, "Traceback"),
        (UserError("bad flag"), 2, "bad flag\n"),
        (DirectoryInUseError("in use"), 3, "in use\n"),
        (NonFiniteLossError("nan"), 4, "nan\n"),
        (StoppedBySignal(7), 42, "step 7"),
    ],
)
def test_each_end_has_its_exit_code(monkeypatch, capsys, error, code, shown):
    def main(config):
        assert config == _Config()
        if error:
            raise error

    assert _run(monkeypatch, main) == code
    text = capsys.readouterr().err
    assert shown in text
    assert ("Traceback" in text) == (code == 1)


def test_mistaken_flags_end_with_2_before_main(monkeypatch, capsys):
    assert _run(monkeypatch, pytest.fail, "--stepz=3") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_lists_flags_meanings_and_defaults(monkeypatch, capsys):
    assert _run(monkeypatch, pytest.fail, "--help") == 0
    text = capsys.readouterr().out
    for line in (
        "--rate: Updates per second.\n    (default: '0.5')",
        "--[no]use_cache: Keep it.",
        "--device: <auto|cpu>: Where to compute.",
        "(default: '0.25,0.5')",
        "--flagfile",
        "--hparams",
    ):
        assert line in text
    parts = [line[:-1] for line in text.splitlines() if line.endswith(":")]
    assert parts == ["free", "fast", "general"], "in the configuration's order"


def test_a_stored_configuration_can_be_given_as_hparams(tmp_path):
    config = _parse("--steps=3", "--sources=a,b", "--width=5", "--device=cpu")
    path = tmp_path / "config.json"
    config_files.save_config(path, config)
    assert _parse(f"--hparams={path}") == config
