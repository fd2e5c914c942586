"""The folder of images that the teach page works on."""
