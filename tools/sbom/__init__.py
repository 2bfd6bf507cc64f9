"""What an image is made of, as a CycloneDX document: read from the image itself, never from what it was meant to be made of."""
