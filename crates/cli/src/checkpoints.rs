//! `ambulator checkpoints`.

use crate::output::{print, report};
use crate::{DONE, Failure, SOME_FAILED};
use ambulator_experiments::{CheckpointHeader, Checkpoints, bytes, numbered};
use clap::Args;
use std::path::PathBuf;

/// The folder to list.
#[derive(Args)]
pub struct CheckpointsArguments {
    /// The folder that `--checkpoint` named.
    pub folder: PathBuf,
    /// All that is known of them, as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Lists the checkpoints of a folder.
pub fn run(arguments: &CheckpointsArguments) -> Result<u8, Failure> {
    let list = Checkpoints::list(&arguments.folder).map_err(Failure::bad)?;
    let (mut code, mut headers, mut all) = (DONE, Vec::new(), 0);
    for one in list {
        match one {
            Err(error) => {
                report(&error);
                code = SOME_FAILED;
            }
            Ok((path, header, size)) => {
                all += size;
                if !arguments.json {
                    print(&format!("{}: {}", path.display(), line(&header, size)));
                }
                headers.push(header);
            }
        }
    }
    if arguments.json {
        print(&serde_json::to_string_pretty(&headers).map_err(Failure::failed)?);
    } else if headers.is_empty() {
        print(&format!("{}: no checkpoints", arguments.folder.display()));
    } else {
        print(&format!("{}, {} in total", numbered(headers.len(), "checkpoint"), bytes(all as f64)));
    }
    let (recordings, size) = Checkpoints::recordings_in(&arguments.folder).map_err(Failure::bad)?;
    if recordings > 0 && !arguments.json {
        print(&format!("{} of programs, {} in total", numbered(recordings, "recording"), bytes(size as f64)));
    }
    Ok(code)
}

/// What a checkpoint is, on one line.
fn line(header: &CheckpointHeader, size: u64) -> String {
    let warmup =
        header.settings.get("run.warmup").map_or_else(String::new, |warmup| format!(" after {warmup} instructions"));
    let time =
        if header.timed { "with time: every setting counts" } else { "without time: settings of time may differ" };
    let build = if header.is_of_this_build() {
        String::new()
    } else {
        format!("; of another build of Ambulator (version {}), which this one does not use", header.version)
    };
    format!(
        "{} on {}{warmup}, {time}; {} ({} before compression){build}",
        header.design,
        header.programs,
        bytes(size as f64),
        bytes(header.state_bytes as f64)
    )
}
