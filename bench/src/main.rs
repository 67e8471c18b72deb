//! The bench: everything it does is in the library.

fn main() -> std::process::ExitCode {
    bench::run(std::env::args().skip(1))
}
