"""Logistic models once more, slowly and in the papers' own notation: inducing values u, k(Z, Z)⁻¹ everywhere."""

import numpy as np
from scipy.special import expit, log_expit, logit

from bagwise.gp import kernels


def lam(xi):
    return np.where(np.abs(xi) < 1e-6, 0.125, np.tanh(xi / 2) / (4 * np.where(xi == 0, 1, xi)))


def entropy(logit):
    return -(expit(logit) * log_expit(logit) + expit(-logit) * log_expit(-logit))


class Reference:
    """Coordinate ascent on (5.4) or (5.11), one instance at a time; H finite, plain labels, every bag labelled."""

    def __init__(self, features, bags, y, H, margin=None):
        self.Z = features.inducing
        x = features.standardised(bags.X)
        jitter = features.jitter
        self.Kzz = kernels.gram(features.kernel, self.Z).detach().numpy()
        self.Kzz = self.Kzz + jitter * np.diag(self.Kzz).mean() * np.eye(len(self.Kzz))
        self.Kxz = kernels.cross(features.kernel, x, self.Z).detach().numpy()
        self.kxx = kernels.diagonal(features.kernel, x).detach().numpy()
        self.A = self.Kxz @ np.linalg.inv(self.Kzz)
        self.left = self.kxx - np.sum(self.A * self.Kxz, axis=1)
        self.bags, self.y, self.logH, self.H, self.margin = bags, y, np.log(H), H, margin
        n = len(x)
        alone = 0.5 / (1 - 0.5 ** bags.sizes[bags.index])
        self.logit = logit(np.clip(np.where(y[bags.index] == 0, 0.0, alone), 0.02, 0.98))
        self.gate = np.full(n, 4.0)
        self.xi = np.ones(n)
        self.phi = np.ones(n)

    @property
    def pi(self):
        return expit(self.logit)

    def run(self, iterations):
        self.update_u()
        for _ in range(iterations):
            self.update_instances()
            self.update_u()
        return self

    def update_u(self):
        if self.margin is None:
            weight, target = 2 * lam(self.xi), self.pi - 0.5
        else:
            C, V = self.margin
            g, s = expit(self.gate), 2 * self.pi - 1
            weight = 2 * (lam(self.xi) * C**2 + lam(self.phi) * g)
            target = C * s * (g - 0.5) + 2 * C**2 * lam(self.xi) * s * V + g * (self.pi - 0.5)
        self.S = np.linalg.inv(np.linalg.inv(self.Kzz) + self.A.T @ (weight[:, None] * self.A))
        self.m = self.S @ self.A.T @ target

    def moments(self):
        f = self.A @ self.m
        return f, f**2 + np.sum((self.A @ self.S) * self.A, axis=1) + self.left

    def update_instances(self):
        f, f2 = self.moments()
        if self.margin is None:
            self.xi = np.sqrt(f2)
            self.update_y(f)
            return
        C, V = self.margin
        self._margins(f, f2)
        s = 2 * self.pi - 1
        self.gate = C * (s * f - V) + f * (self.pi - 0.5) - lam(self.phi) * f2
        g = expit(self.gate)
        self.update_y(f * (2 * C * g - C + 4 * C**2 * lam(self.xi) * V + g))
        self._margins(f, f2)

    def _margins(self, f, f2):
        C, V = self.margin
        self.xi = np.sqrt(C**2 * (f2 - 2 * (2 * self.pi - 1) * f * V + V**2))
        self.phi = np.sqrt(expit(self.gate) * f2)

    def update_y(self, eta):
        for b in range(len(self.bags)):
            rows = range(self.bags.offsets[b], self.bags.offsets[b + 1])
            for i in rows:
                others = np.prod([1 - self.pi[j] for j in rows if j != i])
                self.logit[i] = eta[i] + (2 * self.y[b] - 1) * self.logH * others

    def bound(self):
        """(5.4) or (5.11), every term as it is printed."""
        f, f2 = self.moments()
        pi, s = self.pi, 2 * self.pi - 1
        if self.margin is None:
            xi = self.xi
            each = pi * f + log_expit(xi) - (f + xi) / 2 - lam(xi) * (f2 - xi**2)
        else:
            (C, V), g, xi, phi = self.margin, expit(self.gate), self.xi, self.phi
            each = g * C * (s * f - V) - (C * (s * f - V) + xi) / 2 + log_expit(xi)
            each -= lam(xi) * (C**2 * (f2 - 2 * s * f * V + V**2) - xi**2)
            each += pi * g * f - (g * f + phi) / 2 + log_expit(phi) - lam(phi) * (g * f2 - phi**2)
            each += entropy(self.gate)
        total = np.sum(each + entropy(self.logit))
        for b in range(len(self.bags)):
            some = 1 - np.prod(1 - pi[self.bags.offsets[b] : self.bags.offsets[b + 1]])
            fits = some if self.y[b] == 1 else 1 - some
            total += fits * self.logH - np.log1p(self.H)
        inverse = np.linalg.inv(self.Kzz)
        divergence = np.trace(inverse @ self.S) + self.m @ inverse @ self.m - len(self.m)
        divergence += np.linalg.slogdet(self.Kzz)[1] - np.linalg.slogdet(self.S)[1]
        return total - 0.5 * divergence


def logistic_gp(K, y, iterations):
    """Ordinary logistic GP classification with the quadratic bound, all inputs inducing: mean and covariance of f."""
    sign, xi = 2 * y - 1, np.ones(len(y))
    for _ in range(iterations):
        W = np.diag(2 * lam(xi))
        covariance = K - K @ W @ np.linalg.inv(np.eye(len(y)) + K @ W) @ K
        mean = covariance @ (sign / 2)
        xi = np.sqrt(np.diag(covariance) + mean**2)
    return mean, covariance
