//! The floor: the least that any client of the same requests has to do.
//!
//! It sends requests that the program sent before, byte for byte, over one connection, reads each
//! answer, runs its command with bash and goes on. It stores, checks and shows nothing.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::model_server::{read_chunks, read_line};
use crate::wire;

/// The longest recorded request, in bytes; a longer one is a damaged file.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Writes requests to a file that the floor reads.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn record(path: &Path, bodies: &[Vec<u8>]) -> Result<()> {
    let mut bytes = Vec::new();
    for body in bodies {
        let length = u32::try_from(body.len()).context("record a request")?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(body);
    }
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}

/// Returns requests of an ordinary size, for a run without the program.
pub(crate) fn invented(steps: usize) -> Vec<Vec<u8>> {
    let step = "x".repeat(400);
    let system = "y".repeat(8_000);
    (0..=steps)
        .map(|at| format!("{{\"system\":\"{system}\",\"messages\":\"{}\"}}", step.repeat(at)))
        .map(String::into_bytes)
        .collect()
}

/// Is the floor.
///
/// # Errors
/// When the server cannot be reached, a command cannot be started, or the recording runs out.
pub(crate) fn run(address: &str, recording: &Path) -> Result<()> {
    let mut file =
        std::fs::File::open(recording).with_context(|| format!("open {}", recording.display()))?;
    let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let body = next_body(&mut file)?;
        let mut request = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             x-api-key: x\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(&body);
        writer.write_all(&request).context("send a request")?;
        let answer = read_answer(&mut reader)?;
        match wire::command_of(&answer)? {
            Some(command) => run_command(&command)?,
            None => return Ok(()),
        }
    }
}

fn next_body(file: &mut impl Read) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    file.read_exact(&mut length).context("the recording has fewer requests than the script")?;
    let length = usize::try_from(u32::from_le_bytes(length))?;
    if length > BODY_BYTES_MAX {
        bail!("the recording is damaged");
    }
    let mut body = vec![0; length];
    file.read_exact(&mut body).context("read the recording")?;
    Ok(body)
}

fn read_answer(reader: &mut BufReader<TcpStream>) -> Result<String> {
    let status = read_line(reader)?.context("the server hung up")?;
    if !status.contains(" 200 ") {
        bail!("the server answered {status}");
    }
    while read_line(reader)?.context("the head of an answer ends early")?.as_str() != "" {}
    String::from_utf8(read_chunks(reader)?).context("read an answer")
}

/// Runs a command the way a shell tool has to: its output is collected, its status awaited.
pub(crate) fn run_command(command: &str) -> Result<()> {
    #[allow(clippy::disallowed_methods, reason = "the floor has no sandbox to ask")]
    let mut bash = Command::new("bash");
    let output = bash.args(["-c", command]).stdin(Stdio::null()).output().context("run bash")?;
    if !output.status.success() {
        bail!("bash -c '{command}' ended with {}", output.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_server::ModelServer;

    #[test]
    fn the_floor_follows_the_script() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("requests");
        let bodies = invented(3);
        record(&recording, &bodies).unwrap();
        let server = ModelServer::start().unwrap();
        server.begin(3, true);
        run(&server.address().to_string(), &recording).unwrap();
        let (exchanges, seen) = server.end();
        assert_eq!(seen, bodies);
        assert!(exchanges.windows(2).all(|pair| pair[0].sent < pair[1].arrived));
    }
}
