"""One module per way to store a dataset; each returns an ImageDataset, or one per split."""
