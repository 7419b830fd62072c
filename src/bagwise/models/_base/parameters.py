"""Texts about parameters and fitted attributes that several estimators share, in numpydoc style.

The decorator of ``documented.py`` puts them into the docstrings, with the defaults of each estimator. Each says what
the thing is, and when to change it. A class that needs another text writes it into its own docstring.
"""

PARAMETERS = """
evidence : {"label", "fraction", "count"}
    What ``y`` holds: "label" (two class values), "fraction" (fractions of positives, numbers in [0, 1]) or "count"
    (numbers of positives, or shape (B, 2): lowest and highest number of positives). Change it to what you know about
    your bags. ``fit`` also takes an ``Evidence``, in which the kinds mix bag by bag; this parameter is then not used.
confidence : float or array of shape (B,)
    How far fractions are trusted: a fraction weighs as much as so many counted instances. Decrease it where
    fractions are estimates; one number per bag gives each bag its own. Fractions of 0 and 1 are certain.
class_weight : None, "balanced" or dict
    How much the bags of each class count, for labels of one column: a dict such as ``{0: 1, 1: 5}``, or "balanced" for
    as much as the other class, however few they are. It multiplies ``sample_weight``. Probabilities are then those of
    bags among which the classes are as frequent as they count. Keep None, and lower the threshold of your decision,
    where a missed positive costs more than a false alarm.
n_inducing : int or None
    Number of inducing inputs: the points on which the Gaussian process rests. More of them follow finer structure and
    cost time (quadratic in their number) and memory (linear). Increase it until the answers stop changing. None uses
    every distinct instance.
inducing : {"kmeans++", "random"} or array of shape (R, D)
    How inducing inputs are chosen: cluster centres of the instances, a random choice of instances, or the rows that are
    given here, in the units of the data. Give an array where you know which regions matter.
bias : float
    Prior standard deviation of a constant that is added to the latent function; 0 for no constant. The constant carries
    how frequent positives are in general. Set it to 0 only if positives and negatives are about equally frequent.
kernel : str or gpytorch kernel
    Which instances are alike: "rbf", "exponential", "matern32", "matern52", "linear", "rbf+linear" (their sum), or any
    gpytorch kernel. Change it where you know more: "linear" for very many features, "matern32" for rough functions.
lengthscale : float or None
    Distance, in units of the standardised features, over which the latent function varies; for kernels given by name.
    None takes √D for D features. Decrease it where the answers are too smooth. Where the kernel is learned this is the
    value from which the search starts; None then takes the spread of the rows if they are not standardised.
standardize : bool
    Shift and scale every feature to mean 0 and variance 1, as measured in ``fit`` and stored with the model. Use False
    if the features have a common unit and their sizes matter.
jitter : float or None
    Number added to the diagonal of the kernel matrix of the inducing inputs, as a share of its mean, so that it can be
    factored. None takes a usual value (1e-6; with float32 1e-4), which is increased where necessary. Increase it if
    ``fit`` says that the matrix cannot be factored.
device : {"cpu", "cuda"}
    Where to compute. Use "cuda" for many instances and inducing inputs, if there is a GPU.
dtype : {"float64", "float32"}
    Precision in which features are computed. Use "float32" where memory is short, or on a GPU.
random_state : int, RandomState instance or None
    Where random numbers come from: those of the inducing inputs, of starting values and of samplers. Give a number to
    get the same model again.
verbose : int
    Whether to show a progress bar on standard error. Set it to 1 for fits that take long.
callback : callable or None
    A function ``callback(iteration, objective)`` that is called after every iteration. Use it to write a log, or to
    stop a fit by raising ``KeyboardInterrupt``.
learn : bool
    Learn the parameters of the kernel by the gradient of the log evidence. Use False to keep a kernel as given, which
    is faster.
ard : bool
    One lengthscale per feature instead of one for all, so that ``relevance_`` says which features matter. Use it with
    some tens of features and enough bags; it takes longer and can overfit small data.
n_restarts : int
    Number of searches for the kernel: the first from its given values, the others from draws of the priors; the best is
    kept. Increase it if the search ends at a poor kernel, or if ``fit`` warns that it has not settled.
n_chains : int
    Number of chains that the sampler runs side by side. Increase it for diagnostics to rely on; it costs memory.
n_samples : int
    Number of sweeps of every chain that are used. Increase it if ``fit`` warns that the chains have not mixed.
n_burn_in : int
    Number of sweeps of every chain that are made first and thrown away. Increase it where chains take long to forget
    where they began.
warm_start : bool
    Continue the chains of the last fit until they have ``n_samples`` sweeps. Use it after Ctrl-C, or after increasing
    ``n_samples``; nothing else may have changed.
scale_step : bool
    Rescale the sampler's latent values after every sweep (theory, equation 3.3), which makes chains mix better. Use
    False only to compare with the sampler without it.
checkpoint : str, path or None
    Name of a file into which the chains are written every 500 sweeps. If the file exists, ``fit`` continues from there
    and makes the same chains as if it had never stopped; this needs a number as ``random_state``. Use it for runs of
    hours.
H : float
    How far labels are trusted: one label in 1 + H may be wrong. Decrease it (it must be above 1) where labels are
    noisy. ``math.inf`` says that labels are never wrong and needs ``updates="structured"``.
updates : {"sequential", "structured", "parallel"}
    How the beliefs about the instances of a bag are updated: "sequential", one instance after the other; "structured",
    all together in closed form; "parallel", all at once as if the others stood still, as in the authors' code. The
    first two never lower the bound; "parallel" can go round in circles, and ``fit`` warns when it does. Use
    "structured" for large bags.
"""

ATTRIBUTES = """
classes_ : ndarray of shape (2,) or (K, 2)
    The two class values, the second of which is called positive; one row per label column where there are several.
label_names_ : tuple of str or None
    Names of the label columns where ``y`` has several, else None.
n_features_in_ : int
    Number of features in ``fit``.
feature_names_in_ : ndarray of str
    Names of the features in ``fit``; only there if they had names.
features_ : Features
    The map from instances to whitened features: scaling, kernel and inducing inputs. ``features_.transform(bags)``
    gives the features and the variances that they leave over.
posterior_ : posterior
    Posterior of the weights of the features: a Gaussian, or draws where chains were run.
rule_ : Rule
    How the latent values of a bag decide about the bag; saved with the model.
kernel_ : gpytorch kernel
    The kernel, learned or as given, in units of standardised features.
relevance_ : ndarray of shape (D,) or None
    Share of every feature in the squared inverse lengthscales; None for kernels without lengthscales.
mean_ : float or ndarray of shape (K,)
    Posterior mean of the constant, 0 without one; one value per label column.
log_evidence_ : float, ndarray of shape (K,) or None
    Log evidence (the logarithm of the marginal likelihood), by which fits of the same bags can be compared; None where
    there is none.
trace_ : Trace
    Course of the iteration: ``values`` of the objective, ``residuals`` (how far each iteration moved), ``converged``.
learning_trace_ : Trace or None
    Best log evidence plus log prior after every evaluation of the search for the kernel; None where nothing was
    learned. Where the usual start gained too little ``gains`` holds what every start gained, the usual one first.
n_iter_ : int
    Number of iterations made.
converged_ : bool
    Whether the iteration met its tolerance; of chains, whether their diagnostics are good.
chains_ : Chains or None
    Quantities that were watched in every sweep of the sampler; None where no chains were run.
diagnostics_ : DataFrame
    R-hat, bulk and tail effective sample size and Monte Carlo error of every watched quantity: the log likelihood of
    the evidence, the length of the weights, the constant and up to fifty latent values. Only where chains were run.
sizes_seen_ : tuple of int
    Number of instances of the smallest and of the largest training bag.
learned_from_known_ : bool
    Whether instances known one by one (``bags.with_known``) took part in the fit.
threads_ : int or None
    Number of threads of every step of the fit, on which its last digits depend (``bagwise.scale.within(threads=...)``);
    None where the model file does not tell.
seed_ : int
    Seed of all random numbers after the choice of the inducing inputs, drawn from ``random_state``.
"""
