//! The Python module.
#![allow(missing_docs)]
use pyo3::prelude::*;
#[pymodule(name = "_core")]
mod core_module {}
