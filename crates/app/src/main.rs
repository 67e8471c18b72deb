//! The binary: everything it does is in the library, so that it can be tested.

fn main() -> std::process::ExitCode {
    app::run(std::env::args_os())
}
