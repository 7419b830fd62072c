"""Bugs in reading what is known of bags: labels, fractions, counts, candidates, known instances."""

from tests.mutants.mutant import mutants_of

MUTANTS = [
    *mutants_of(
        "evidence/counts.py",
        "evidence/test_counts.py bag_models/test_counts.py",
        (
            "known negatives leave all counts possible",
            "sizes - np.add.reduceat((known == 0)",
            "sizes - np.add.reduceat((known == 2)",
        ),
        (
            "known instances do not count as informed",
            "np.repeat(low < high, sizes) | ~np.isnan(known)",
            "np.repeat(low < high, sizes)",
        ),
        (
            "the ceiling is the lowest potential",
            "(times * np.maximum.reduceat(table, starts))[by_table]",
            "(times * np.minimum.reduceat(table, starts))[by_table]",
        ),
        (
            "tables of chosen bags begin at the wrong entry",
            "self.offsets[chosen] + chosen, sizes + 1",
            "self.offsets[chosen], sizes + 1",
        ),
    ),
    *mutants_of(
        "evidence/labels.py",
        "evidence/test_labels.py",
        (
            "the first class is the positive one",
            "values[~missing] = seen == classes[1]",
            "values[~missing] = seen == classes[0]",
        ),
        (
            "missing labels in columns become 0",
            "np.where(missing, np.nan, array).astype(np.float64)",
            "np.where(missing, 0.0, array).astype(np.float64)",
        ),
    ),
    *mutants_of(
        "evidence/statements.py",
        "evidence/test_statements.py",
        ("a confidence of 0 is evidence", "missing = np.isnan(values) | (trust == 0)", "missing = np.isnan(values)"),
        ("the lowest count is excluded", "((k >= first) & (k <=", "((k > first) & (k <="),
        ("the noise of labels is turned round", "1.0 - label_noise, label_noise)", "label_noise, 1.0 - label_noise)"),
        (
            "the Beta law has no normaliser",
            "return np.log1p(confidence) - confidence * _divergence(share, m)",
            "return 0.0 - confidence * _divergence(share, m)",
        ),
        ("Stirling's series has a wrong coefficient", "(1 / 12 - (1 / 360", "(1 / 12 - (1 / 36"),
        (
            "words that are repeated count twice",
            "(word in set(words)) / len(set(words)) for",
            "(word in set(words)) / len(list(words)) for",
        ),
    ),
    *mutants_of(
        "evidence/reading.py",
        "evidence/test_reading.py",
        (
            "a range from 0 says that there is no positive",
            "np.where(kind == COUNT, second == 0, first == 0)",
            "np.where(kind == COUNT, first == 0, first == 0)",
        ),
        ("every fraction pins its count down", "(first < 1) & (second > sizes)", "(first < 1) & (second > 0)"),
        (
            "labels that may be wrong stay plain labels",
            "closed = reading.label_noise == 0.0 or",
            "closed = reading.label_noise < 1.0 or",
        ),
        (
            "a count of the whole bag is refused",
            "(statement.second > bags.totals)",
            "(statement.second >= bags.totals)",
        ),
    ),
    *mutants_of(
        "evidence/candidates.py",
        "evidence/test_candidates.py",
        (
            "bags without a set have an empty one",
            "np.array([names is not None for names in listed])",
            "np.ones(len(listed), dtype=bool)",
        ),
        ("the class of no class may be one that there is", "return classes.max() + 1", "return classes.max()"),
        (
            "a missing row of a table is an empty set",
            "~np.all(pd.isna(array), axis=1)",
            "~np.all(pd.isna(array), axis=1) | True",
        ),
    ),
    *mutants_of(
        "evidence/known.py",
        "evidence/test_known.py evidence/test_declared.py",
        ("a positive bag may not hold a known negative", "(negatives == bags.sizes)", "(negatives > 0)"),
        (
            "known instances are added with the labels of the first rows",
            "bags.known[rows][:, None]",
            "bags.known[: len(rows)][:, None]",
        ),
    ),
    *mutants_of(
        "evidence/declared.py",
        "evidence/test_declared.py evidence/test_known.py",
        ("the wrong bag is named", "            bag += 1", "            bag += 0"),
    ),
]
