"""What a bag says about the latent values of its instances, one file per kind of evidence."""
