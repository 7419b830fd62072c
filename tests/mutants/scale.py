"""Bugs in what is larger than memory or than one machine: rows in files, features in files, sums of shards."""

from tests.mutants.mutant import mutants_of

ROWS = "sources/test_arrays.py sources/test_rows.py"
STREAMING = "inference/test_places.py scale/test_settings.py equivalence/test_streaming.py"

MUTANTS = [
    *mutants_of(
        "sources/rows.py",
        "sources/test_rows.py sources/test_arrays.py",
        (
            "rows of a run begin at its first row",
            "(self._starts[run] + lows - self._places[run])",
            "(self._starts[run])",
        ),
        ("rows that touch are always one run", "starts[1:] != starts[:-1] + sizes[:-1]", "starts[1:] < starts[:-1]"),
        ("rows come in the order of the file", "out[order[begin:end]] = ", "out[begin:end] = "),
        (
            "rows that others are to read are counted from the first of all",
            "np.flatnonzero(np.isin(positions,",
            "start + np.flatnonzero(np.isin(positions,",
        ),
        ("rows put aside for one question serve every pass", "shelf.for_passes and (found", "(found"),
        ("rows that are not finite pass", "and not np.isfinite(values).all()", "and np.isfinite(values).all()"),
        ("the bag of a bad row is the next one", 'side="right")) - 1]', 'side="right"))]'),
    ),
    *mutants_of(
        "sources/arrays.py",
        ROWS,
        ("joined rows begin at the first part", "low, high = max(start - begin, 0)", "low, high = max(start, 0)"),
    ),
    *mutants_of(
        "sources/parquet.py",
        "sources/test_parquet.py",
        ("a batch begins where its row group does", "start += batch.num_rows", "start += 0"),
        ("an earlier row is looked for in later batches", "or row < cursor.start or", "or"),
    ),
    *mutants_of(
        "sources/shelf.py",
        "sources/test_shelf.py",
        (
            "rows that were announced are put aside in the wrong place",
            "values[self.positions[low:high] - first]",
            "values[self.positions[low:high] - low]",
        ),
        (
            "rows that somebody else has read are still missing",
            "self._there[places] = values, True",
            "self._there[places] = values, False",
        ),
    ),
    *mutants_of(
        "sources/opening.py",
        "sources/test_opening.py sources/test_parquet.py test_opened_bags.py",
        ("a bag that goes on is a new one", "stretch.ids[0] == self.ids[-1]", "stretch.ids[0] != self.ids[-1]"),
        ("a bag may come twice", "if name in self._numbers:", "if name in self._names:"),
        (
            "a bag that goes on may change its label",
            "if going_on is not None and not _same",
            "if going_on is None and not _same",
        ),
    ),
    *mutants_of(
        "inference/chunks.py",
        "inference/test_chunks.py",
        (
            "sums of the right side are lost",
            "return {name: value + other[name]",
            "return {name: value + 0 * other[name]",
        ),
        ("subtrees of any height are joined", "self._open[-1][0] == height:", "self._open[-1][0] >= height:"),
    ),
    *mutants_of(
        "inference/places.py",
        STREAMING,
        ("tensors in a file overlap", "(self._end + values.nbytes)", "self._end"),
        ("changes reach the file", 'slot.dtype, "c"', 'slot.dtype, "r+"'),
    ),
    *mutants_of(
        "scale/cluster.py",
        "scale/test_cluster.py ::test_killed_client_is_continued_by_another_to_the_same_model",
        ("states are not read again", "if self._sweeps == journal.last_state:", "if self._sweeps == 0:"),
        ("sweeps after the last state are not made again", "elif self._sweeps > journal.last_state:", "elif False:"),
    ),
    *mutants_of(
        "inference/laplace/annealing.py",
        "scale/test_cluster.py ::test_witnesses_that_were_interrupted_are_continued_to_the_same_model",
        ("the end of an interrupted fit is written down", "    if trace.interrupted:\n", "    if False:\n"),
    ),
    *mutants_of(
        "bag_models/soft_max.py",
        "bag_models/test_soft_max.py ::test_losses_of_some_bags_travel_without_those_of_others",
        ("a chunk travels with the labels of all bags", "self.labels.clone()", "self.labels"),
    ),
    *mutants_of(
        "scale/cluster.py",
        "scale/test_cluster.py ::test_rows_of_a_file_are_read_by_workers_alone_to_the_model_of_one_process",
        ("rows read by workers are put aside in the first window", "start + some[name], rows", "some[name], rows"),
        ("rows in a file are read by the client", "if self.works_here(len(X)):", "if len(X):"),
    ),
    *mutants_of(
        "scale/tasks.py",
        "scale/test_cluster.py ::test_kernel_learned_on_workers_is_that_of_one_process_to_the_last_bit",
        ("what chunks are told is that of the first", "_well_placed(each[number])", "_well_placed(each[0])"),
        ("workers forget", "None if before is None else list(before.states)", "None"),
    ),
    *mutants_of(
        "scale/journal.py",
        "scale/test_journal.py",
        ("sums of another question are used", 'if file.metadata() == {"question": question}:', "if True:"),
        ("states that are not complete are used", "return all(path.exists()", "return any(path.exists()"),
    ),
    *mutants_of(
        "scale/fingerprint.py",
        "scale/test_fingerprint.py",
        (
            "tensors of another shape are the same",
            'f"{value.dtype}{value.shape}".encode()',
            'f"{value.dtype}".encode()',
        ),
    ),
]
