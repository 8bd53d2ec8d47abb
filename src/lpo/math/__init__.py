"""The mathematics: arrays in, arrays out, nothing of files, environments or configurations."""
