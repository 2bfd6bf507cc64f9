"""Makes the files of a release: images, chart, list of images, SBOMs and check sums."""
