"""Contents of an image as a CycloneDX document, read from the image itself and not from its build files."""
