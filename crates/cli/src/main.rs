//! The `ambulator` command.

fn main() -> std::process::ExitCode {
    ambulator::app().run()
}
