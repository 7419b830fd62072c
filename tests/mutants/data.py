"""Bugs in data: bags, checks, tables, archives, files, generated data, splits."""

from tests.mutants.mutant import mutants_of

MUTANTS = [
    *mutants_of(
        "_bag_contents.py",
        "test_bag_contents.py test_bags.py test_opened_bags.py",
        (
            "known labels stay where they were when rows are sorted",
            'each = {"rows": self._rows, "known": self._known, "part": self._part, "weight": self._weight}\n',
            'each = {"rows": self._rows, "part": self._part, "weight": self._weight}\n',
        ),
        (
            "rows of chosen bags are numbered anew",
            "for number in numbers),\n            **self._beside(rows),",
            "for number in numbers),\n            **self._beside(rows) | {'rows': np.arange(len(rows))},",
        ),
        (
            "a stretch of bags keeps the offsets of all",
            "self._offsets[start : stop + 1] - self._offsets[start]",
            "self._offsets[start : stop + 1] - self._offsets[0]",
        ),
    ),
    *mutants_of(
        "_long_tables.py",
        "test_long_tables.py",
        (
            "instance labels come in the order of the table",
            "frame[instance_label].to_numpy()[bags.rows]",
            "frame[instance_label].to_numpy()",
        ),
    ),
    *mutants_of(
        "_validation.py",
        "test_bag_arrays.py test_indexing.py test_long_tables.py test_bag_contents.py test_bags.py",
        (
            "labels by id come in the order of the labels",
            "values[[position[name] for name in ids]]",
            "values[list(range(len(ids)))]",
        ),
        (
            "a label may vary inside a bag",
            "varying = np.flatnonzero(lowest != highest)",
            "varying = np.flatnonzero(lowest > highest)",
        ),
    ),
    *mutants_of(
        "_matrices.py",
        "test_bag_arrays.py test_indexing.py test_long_tables.py test_bag_contents.py test_bags.py",
        ("single precision becomes double", "np.float32 if kind == np.float32 else np.float64", "np.float64"),
    ),
    *mutants_of(
        "per_instance.py",
        "test_per_instance.py",
        (
            "the transformer learns again from what it transforms",
            "self.transformer_.transform(_table(given))",
            "self.transformer_.fit_transform(_table(given))",
        ),
    ),
    *mutants_of(
        "model_selection.py",
        "test_model_selection.py",
        (
            "test bags may be training bags",
            "np.setdiff1d(np.arange(len(positive)), train)",
            "np.setdiff1d(np.arange(len(positive)), chosen)",
        ),
        (
            "negatives come from the first categories",
            'shuffled[np.argsort(turn, kind="stable")]',
            'shuffled[np.argsort(kinds[shuffled], kind="stable")]',
        ),
    ),
    *mutants_of(
        "io/tables.py",
        "io/test_tables.py cli/test_outputs.py ::test_text_that_a_spreadsheet_would_compute_is_quoted_unless_raw",
        (
            "formulas are kept in CSV files",
            "isinstance(cell, str) and _FORMULA.match(cell)",
            "isinstance(cell, str) and not _FORMULA.match(cell)",
        ),
        ("bag keys lose their first letter", "frame[name] = frame[name].str[1:]", "frame[name] = frame[name].str[2:]"),
    ),
    *mutants_of(
        "io/npz.py",
        "io/test_npz.py io/test_bag_data.py io/test_tables.py test_bag_arrays.py",
        ("labels follow the numbers of bags, not their order", "return y if order is None else y[order]", "return y"),
        (
            "unknown instances are negative",
            "np.where(values == -1, np.nan, values.astype(np.float64))",
            "np.where(values == -1, 0.0, values.astype(np.float64))",
        ),
        (
            "known instances stay in the order of the file",
            "bags.with_known(checked[bags.rows])",
            "bags.with_known(checked)",
        ),
    ),
    *mutants_of(
        "io/bag_data.py",
        "io/test_bag_data.py",
        (
            "instance labels of a table stay in its order",
            "frame[list(instance_labels)].to_numpy()[bags.rows]",
            "frame[list(instance_labels)].to_numpy()",
        ),
    ),
    *mutants_of(
        "io/predictions.py",
        "io/test_predictions.py",
        (
            "instances come bag by bag",
            'whole.sort_values("row", kind="stable", ignore_index=True)',
            "whole",
        ),
        (
            "the standard deviation is a variance",
            '{"mean": mean, "sd": np.sqrt(variance)}',
            '{"mean": mean, "sd": variance}',
        ),
        (
            "the less probable class is predicted",
            "np.where(probability > 0.5, classes[1], classes[0])",
            "np.where(probability > 0.5, classes[0], classes[1])",
        ),
        (
            "columns of labels are mixed up",
            "table[:, k] for k, label in enumerate(names)",
            "table[:, -1 - k] for k, label in enumerate(names)",
        ),
    ),
    *mutants_of(
        "io/table_sizes.py",
        "io/test_table_sizes.py ::test_compressed_table_beyond_the_limit_is_refused",
        ("cells are not counted, only letters", "len(data) + _CELL * (data.count", "len(data) + 0 * (data.count"),
    ),
    *mutants_of(
        "io/plain_json.py",
        "io/test_plain_json.py bench/test_store.py",
        ("infinity becomes undefined", "return None if math.isnan(value) else str(value)", "return None"),
    ),
    *mutants_of(
        "_archives.py",
        "test_archives.py ::test_array_beyond_the_limit_is_refused_by_name_and_size",
        (
            "each array has the whole limit for itself",
            "self._size + math.prod(shape) * _bytes_in_memory(kind)",
            "math.prod(shape) * _bytes_in_memory(kind)",
        ),
    ),
    *mutants_of(
        "_files.py",
        (
            "test_files.py ::test_overwritten_file_keeps_its_mode ::test_link_stays_and_its_file_is_replaced "
            "::test_file_of_a_writer_at_work_is_left_alone"
        ),
        ("a replaced file loses its mode", "            os.chmod(stream.name, replaced)", "            pass"),
        (
            "a link is replaced by a file",
            "target = Path(os.path.realpath(path))\n    _remove_left_over",
            "target = Path(path)\n    _remove_left_over",
        ),
        (
            "files of writers at work are removed",
            "            if _lock(stream.fileno()):\n                path.unlink()",
            "            path.unlink()",
        ),
    ),
    *mutants_of(
        "persistence.py",
        (
            "test_model_files.py ::test_every_flipped_bit_of_a_model_file_is_found "
            "::test_damage_in_the_numbers_is_named_as_damage "
            "::test_file_without_its_checksum_is_refused_and_one_written_by_another_tool_is_not"
        ),
        (
            "the checksum does not see the numbers",
            "digest.update(value.reshape(-1).view(torch.uint8).numpy().data)",
            "pass",
        ),
        (
            "a file without a checksum is believed",
            'if expected is None and description["schema"] > 1:',
            'if expected is None and description["schema"] > 2:',
        ),
    ),
    *mutants_of(
        "datasets/dealing.py",
        "datasets/test_dealing.py datasets/test_groups.py datasets/test_labels.py",
        (
            "instances on the border's other side are drawn",
            "rows[side * wave(rows) > margin]",
            "rows[side * wave(rows) > -margin - 0.5]",
        ),
        (
            "the largest size never comes",
            "random.randint(lowest, highest + 1, size=n)",
            "random.randint(lowest, max(highest, lowest + 1), size=n)",
        ),
        ("labels are shuffled otherwise than their rows", "instance_y[shuffled]", "instance_y"),
    ),
    *mutants_of(
        "datasets/labels.py",
        "datasets/test_labels.py datasets/test_dealing.py datasets/test_groups.py",
        (
            "an image may be used twice",
            "images[random.permutation(len(images))[:n]]",
            "images[random.randint(0, len(images), n)]",
        ),
    ),
    *mutants_of(
        "datasets/groups.py",
        "datasets/test_groups.py",
        (
            "the fraction is of the largest group",
            "return bags, n_positive / sizes, instance_y",
            "return bags, n_positive / sizes.max(), instance_y",
        ),
        (
            "votes go by district instead of person",
            "np.bincount(district, votes, n_districts) / sizes",
            "np.bincount(district, votes, n_districts) / sizes.mean()",
        ),
    ),
    *mutants_of(
        "datasets/candidates.py",
        "datasets/test_candidates.py",
        ("one false candidate too many", "(rank <= n_false)", "(rank <= n_false + 1)"),
        ("the true class may be missing", "order[np.arange(len(y)), y] = -1.0", "order[np.arange(len(y)), y] = 0.5"),
        (
            "a bag may have no instance of its class",
            "np.maximum(1, np.round(share * sizes))",
            "np.maximum(0, np.round(share * sizes) - 1)",
        ),
    ),
]
