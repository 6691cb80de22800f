/** The page of the Python viewer: Neuroglancer's entry that keeps page and Python state the same. Our tools go here. */

import "neuroglancer/unstable/main.bundle.js";
