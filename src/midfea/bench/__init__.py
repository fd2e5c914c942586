"""What `midfea bench` measures, one file for each section. Nothing here is needed to use midfea.

stages    one image through the paper's system, step by step
peers     the whole feature beside HOG, SIFT and scattering
search    the exact search for the nearest words beside brute force
kmeans    learning words beside scikit-learn's k-means
growth    time and memory against pixels, words, filters and images
"""
