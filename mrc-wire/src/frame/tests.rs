//! Steps of validation.
