"""Bugs around slides and cells: h5 files, folders, cells, maps, parts, answers given labels, and weights of bags."""

from tests.mutants.mutant import mutants_of

MUTANTS = [
    *mutants_of(
        "io/h5.py",
        "io/test_h5.py io/test_folder.py",
        (
            "a stack of one slide is read along its first axis",
            "rows = found[0, start:stop] if",
            "rows = found[0, 0:stop] if",
        ),
        ("a file that breaks off late is not looked at to its end", "start + int(np.flatnonzero(wrong)[0])", "None"),
        ("tiles are as large as at the level of the features", "size * fine / coarse", "size * coarse / fine"),
        ("micrometres are taken for pixels", 'unit = "um" if', 'unit = "px" if'),
        ("links to other files are followed", "getlink=True), h5py.HardLink)", "getlink=True), object)"),
    ),
    *mutants_of(
        "io/folder.py",
        "io/test_folder.py io/test_h5.py",
        ("rows are looked for in the file after", 'side="right")) - 1)', 'side="right")))'),
        ("files without a row are passed over", "for name in set(files) - set(names):", "for name in set():"),
        (
            "the files of a bag are not brought together",
            "lambda column: pd.factorize(column)[0]",
            "lambda column: column.index",
        ),
        ("the part after the last dot is not cut off", '[: path.name.rindex(".")]', '[: path.name.index(".")]'),
        ("positions that are no numbers are drawn", "not np.isfinite(file.coords()).all()", "False"),
        ("a file of another width is usable", "if file.shape[1] != width:", "if file.shape[1] < width:"),
        ("bad files are left out without being asked", "if skipped and not skip_bad:", "if skipped and skip_bad:"),
        (
            "metadata are not repeated for every tile",
            "np.repeat(frame[name].to_numpy(), per_file)",
            "np.resize(frame[name].to_numpy(), per_file.sum())",
        ),
    ),
    *mutants_of(
        "io/cells.py",
        "io/test_cells.py",
        (
            "probabilities of bags are not repeated for their cells",
            "**condition))[bags.index]",
            "**condition))[bags.index - bags.index]",
        ),
        ("answers go into the first cells", "whole[places] = values", "whole[: len(values)] = values"),
    ),
    *mutants_of(
        "io/heatmap.py",
        "cli/test_heatmap.py ::test_geojson_is_a_collection_of_closed_counterclockwise_squares_with_finite_scores "
        "::test_heatmap_writes_a_picture_and_scores_beside_coords",
        (
            "squares run clockwise",
            "[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]",
            "[[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]",
        ),
        ("squares stay open", "[0, 1], [0, 0]]) * tile_size", "[0, 1], [0, 1]]) * tile_size"),
        ("tiles below the level are positive", "if first[tile] > level", "if first[tile] < level"),
    ),
    *mutants_of(
        "plots/heatmap.py",
        "plots/test_heatmap.py",
        (
            "rows and columns of the raster are swapped",
            "np.add.at(sums, (places[:, 1], places[:, 0])",
            "np.add.at(sums, (places[:, 0], places[:, 1])",
        ),
        ("tiles in one cell are summed", "cls(sums / counts, corner, step)", "cls(sums / (counts > 0), corner, step)"),
        ("the farthest tile decides about the grid", "float(np.median(nearest))", "float(np.min(nearest))"),
        ("the label of the bag is not passed on", '{"given": [given]}', "{}"),
    ),
    *mutants_of(
        "predict/given.py",
        "predict/test_given.py",
        (
            "instances of negative bags may be positive",
            "np.where(stated == 1, share, 0.0))\n\n\ndef instances_given_counts",
            "share)\n\n\ndef instances_given_counts",
        ),
        (
            "draws of v count alike, however well they fit the statement",
            "(given_v.log_z[:, owner] + given_v.log_r).logsumexp(0)",
            "(given_v.log_z.mean(0)[owner] + given_v.log_r).logsumexp(0)",
        ),
        (
            "an instance is divided by the wrong bag",
            "stated, whole = labels[bags.index], whole[bags.index]",
            "stated, whole = labels[bags.index], whole[bags.index[::-1]]",
        ),
        (
            "parts keep their plain probability",
            "np.where(labels == 1, share, 0.0))\n\n\ndef _check",
            "np.where(labels == 1, parts, 0.0))\n\n\ndef _check",
        ),
    ),
    *mutants_of(
        "_columns.py",
        "test_columns.py test_frames.py test_joined_bags.py",
        (
            "metadata stay where they were",
            "{name: values[rows] for name, values in self._columns.items()}",
            "dict(self._columns)",
        ),
        ("neighbouring parts are one", "begins[1:-1] |= part[1:] != part[:-1]", "begins[1:-1] |= False"),
    ),
    *mutants_of(
        "_frames.py",
        "test_frames.py test_joined_bags.py test_columns.py",
        (
            "results are always pandas frames",
            "if kind == PANDAS:\n        return frame",
            "if kind:\n        return frame",
        ),
    ),
    *mutants_of(
        "evidence/levels.py",
        "evidence/test_levels.py",
        ("what is left of a positive bag is positive", "np.where((whole == 1) & found, np.nan, whole)", "whole"),
        (
            "slides of one patient fall apart",
            "keys[np.unique(numbers, return_index=True)[1]]",
            "keys[np.unique(numbers)]",
        ),
    ),
    *mutants_of(
        "model_selection.py",
        "test_model_selection.py",
        (
            "groups of the bags are not asked for",
            "np.arange(len(X)) if own is None else _codes(own, len(X))",
            "np.arange(len(X))",
        ),
        ("a bag is judged by a model that has seen it", "for train, _ in splits]", "for _, train in splits]"),
    ),
    *mutants_of(
        "evidence/weights.py",
        "evidence/test_weights.py",
        ("a negative weight is taken", "~np.isfinite(weights) | (weights < 0)", "~np.isfinite(weights)"),
        (
            "weights by id are taken in their order",
            "bags.align(sample_weight) if by_id",
            "list(sample_weight.values()) if by_id",
        ),
        (
            "balanced classes count by their own number",
            "np.where(seen, counts, 1.0)), 1.0)",
            "np.where(seen, counts[::-1], 1.0)), 1.0)",
        ),
        ("class weights replace those of the bags", "counted: Floats = own * np.where", "counted: Floats = np.where"),
        (
            "parts of a bag are rounded",
            "broken = np.flatnonzero(weights != np.round(weights))",
            "broken = np.zeros(0, dtype=int)",
        ),
    ),
    *mutants_of(
        "evidence/counts.py",
        "evidence/test_weights.py inference/kernel_learning/test_weighted_judges.py",
        ("a bag of weight 0 counts", "left_out = weight == 0", "left_out = weight < 0"),
        (
            "some bags have the weights of others",
            "None if self.weight is None else self.weight[chosen]",
            "None if self.weight is None else self.weight[: len(chosen)]",
        ),
        ("light bags send messages", "(self.weight < LIGHT)", "(self.weight < 0)"),
    ),
    *mutants_of(
        "inference/expectation_propagation.py",
        "evidence/test_weights.py",
        (
            "the log evidence has no weights",
            "weights.of_bags(log_z).sum(0) + weights.of_rows",
            "log_z.sum(0) + weights.of_rows",
        ),
        (
            "messages have no weights",
            "chunk.evidence.weights.of_rows(part / d, chunk.design.segments) for part in (tau, nu)",
            "part / d for part in (tau, nu)",
        ),
    ),
    *mutants_of(
        "inference/kernel_learning/by_bags.py",
        "inference/kernel_learning/test_weighted_judges.py",
        (
            "rows of heavy bags count once",
            "x.rows.T @ ((times * x.tau)[:, None] * x.rows)",
            "x.rows.T @ (x.tau[:, None] * x.rows)",
        ),
    ),
    *mutants_of(
        "inference/kernel_learning/by_moments.py",
        "inference/kernel_learning/test_weighted_judges.py",
        (
            "information of heavy bags counts once",
            "torch.sqrt(self._times)[:, None] * _bernoulli_directions",
            "_bernoulli_directions",
        ),
    ),
    *mutants_of(
        "inference/laplace/totals.py",
        "evidence/test_weights.py",
        (
            "totals have no weights",
            "(self._times * self._bags.logs(z, self._lever(rows, effect), effect)).sum()",
            "self._bags.logs(z, self._lever(rows, effect), effect).sum()",
        ),
    ),
    *mutants_of(
        "inference/mean_field.py",
        "evidence/test_weights.py",
        ("the Gram matrix has no weights", "(rows if weights.each is None else times * rows)", "rows"),
        ("the pull has no weights", "phi.T @ weights.of_rows(g, segments)", "phi.T @ g"),
    ),
    *mutants_of(
        "inference/logistic_bound.py",
        "evidence/test_weights.py",
        (
            "instances of heavy bags count once",
            "stated.weights.of_rows(part * stated.informed, stated.segments)",
            "part * stated.informed",
        ),
    ),
    *mutants_of(
        "bag_models/soft_max.py",
        "evidence/test_weights.py",
        ("losses have no weights", "seen if self.weight is None else seen * self.weight", "seen"),
    ),
    *mutants_of(
        "baselines/_base/calibration.py",
        "baselines/_base/test_baseline.py",
        ("the sigmoid has no weights", "off = weight * (expit(odds) - target)", "off = expit(odds) - target"),
    ),
    *mutants_of(
        "per_instance.py",
        "test_per_instance.py",
        ("bags become a frame", 'if kind == "default" or isinstance(bags, Bags) or', 'if kind == "default" or'),
        ("the setting of scikit-learn is not asked for", 'get_config()["transform_output"]', '"default"'),
    ),
    *mutants_of(
        "io/npz.py",
        "cli/test_layout.py ::test_parts_groups_and_metadata_of_an_archive_are_arrays",
        (
            "groups of rows are those of the first rows",
            "pd.Series(values[bags.rows], name=name)",
            "pd.Series(values, name=name)",
        ),
        ("metadata are forgotten", "part=part, meta=meta)", "part=part)"),
    ),
]
