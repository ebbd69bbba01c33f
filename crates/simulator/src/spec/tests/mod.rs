//! Tests of specs from the user's point of view.

mod joined;
mod layering;
mod mistakes;
mod programs;
mod properties;
mod reading;
mod unused;

use super::layer::Layers;
use super::problem::Source;
use super::*;
use std::sync::Arc;

fn with_options(options: &[&str]) -> Result<Spec, String> {
    let request =
        SpecRequest { options: options.iter().map(|option| option.to_string()).collect(), ..SpecRequest::default() };
    load(&request).map(|loaded| loaded.spec).map_err(|error| error.to_string())
}

fn parse_text(text: &str) -> Result<Spec, String> {
    parse("mine.toml", text).map_err(|error| error.to_string())
}

#[track_caller]
fn assert_says<T: std::fmt::Debug>(result: Result<T, impl std::fmt::Display + std::fmt::Debug>, parts: &[&str]) {
    let message = result.expect_err("this is wrong").to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in:\n{message}");
    }
}
