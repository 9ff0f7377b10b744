"""What takes the steps of a build: the processes of this machine, or Beam."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from electra_tf.config.corpus import CorpusConfig
from electra_tf.data import corpus, deduplication, processes
from electra_tf.data.record_format import Kind, ShardWriter
from electra_tf.data.shards import Part, Summary, hashes_path
from electra_tf.model.tokenization import Vocabulary
from electra_tf.util import storage

PARTS_PER_PROCESS = 4  # at least, where the number of processes is not given


class Progress(NamedTuple):
    """How far a step of a build has come.

    Attributes:
      num_documents: read so far.
      num_bytes: of text, read so far.
      total_bytes: of text there are, about; 0 if that is not known.
      bytes_before: read by an earlier build that was stopped.
      is_search: whether duplicates are looked for, and nothing built yet.
      num_records: written to the files of a data set so far.
      total_records: of the data set; 0 while text is read.
    """

    num_documents: int
    num_bytes: int
    total_bytes: int
    bytes_before: int
    is_search: bool = False
    num_records: int = 0
    total_records: int = 0


Report = Callable[[Progress], None]


class Engine(Protocol):
    """Takes the steps that read all of a corpus."""

    def find_duplicates(
        self, parts: list[Part], config: CorpusConfig, report: Report
    ) -> list[bytes]:
        """Tells which documents of each part are left out.

        Args:
          parts: of the corpus, in order.
          config: how it is read.
          report: called now and then.

        Returns:
          For each part what `duplicates.leave_out` needs.
        """

    def build(
        self,
        parts: list[Part],
        config: CorpusConfig,
        vocabulary: Vocabulary,
        report: Report,
    ) -> None:
        """Builds the parts that are not there.

        Args:
          parts: of the corpus, in order.
          config: how it is read and packed.
          vocabulary: of its tokens.
          report: called now and then.
        """

    def deal_out(
        self,
        parts: list[Part],
        writers: Mapping[Kind, ShardWriter],
        numbers: Mapping[Kind, list[int]],
        report: Report,
    ) -> None:
        """Writes the records of all parts to the files of a data set.

        Args:
          parts: in order, all of them done.
          writers: of the records of each kind.
          numbers: of records of each kind in each part.
          report: called now and then.
        """


class LocalEngine:
    """Processes of this machine.

    Args:
      num_processes: that work at the same time; 0 for one a core, or fewer
        where there is little text.
    """

    def __init__(self, num_processes: int) -> None:
        self._num_processes = num_processes

    def find_duplicates(
        self, parts: list[Part], config: CorpusConfig, report: Report
    ) -> list[bytes]:
        """Hashes the documents of each part, and compares the hashes."""
        paths = [hashes_path(part) for part in parts]
        missing, before = [], corpus.Statistics()
        for part, path in zip(parts, paths, strict=True):
            if storage.exists(path):
                before.documents += deduplication.count(path)
                before.text_bytes += part.num_text_bytes
            else:
                missing.append(part)
        job = processes.Job("hash", config, None)
        self._run(job, missing, before, report)
        return deduplication.find(paths)

    def build(
        self,
        parts: list[Part],
        config: CorpusConfig,
        vocabulary: Vocabulary,
        report: Report,
    ) -> None:
        """Builds part by part."""
        missing, before = [], corpus.Statistics()
        for part in parts:
            if part.is_done:
                before.add(corpus.Statistics(**Summary.of(part).statistics))
            else:
                missing.append(part)
        job = processes.Job("build", config, vocabulary)
        self._run(job, missing, before, report)

    def deal_out(
        self,
        parts: list[Part],
        writers: Mapping[Kind, ShardWriter],
        numbers: Mapping[Kind, list[int]],
        report: Report,
    ) -> None:
        """Writes record by record in this process."""
        total, done = sum(map(sum, numbers.values())), 0
        for number, part in enumerate(parts):
            for kind, writer in writers.items():
                for record in part.records(kind):
                    writer.write(record)
                done += numbers[kind][number]
            report(Progress(0, 0, 0, 0, num_records=done, total_records=total))

    def _run(
        self,
        job: processes.Job,
        parts: list[Part],
        before: corpus.Statistics,
        report: Report,
    ) -> None:
        """Does a job with parts, in several processes or in this one.

        Args:
          job: what is done.
          parts: those that are missing.
          before: what an earlier build read.
          report: called now and then.
        """
        total = before.text_bytes + sum(part.num_text_bytes for part in parts)

        def report_sum(num_documents: int, num_bytes: int) -> None:
            report(
                Progress(
                    before.documents + num_documents,
                    before.text_bytes + num_bytes,
                    total,
                    before.text_bytes,
                    is_search=job.step == "hash",
                )
            )

        report_sum(0, 0)
        number = self._number(len(parts))
        if number > 1:
            processes.run(job, parts, number, report_sum)
            return
        read = corpus.Statistics()  # in the parts before
        for part in parts:
            statistics = job.do(
                part,
                report=lambda now: report_sum(
                    read.documents + now.documents,
                    read.text_bytes + now.text_bytes,
                ),
            )
            read.add(statistics)

    def _number(self, num_parts: int) -> int:
        """Returns how many processes work on so many parts."""
        asked = self._num_processes
        if not asked:  # each takes seconds to start
            asked = min(processes.num_cores(), num_parts // PARTS_PER_PROCESS)
        return min(asked, num_parts)
