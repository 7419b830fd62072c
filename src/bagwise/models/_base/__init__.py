"""What the estimators share: input and answers, files, chains, learned kernels."""
