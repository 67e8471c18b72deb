//! Finds the file that a command names.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Where to look when the environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Returns the path to execute. A name without a slash is looked up in the `PATH` of the
/// command's own environment, which `posix_spawnp` would not do.
pub(crate) fn find(name: &[u8], env: &[Vec<u8>]) -> io::Result<CString> {
    if name.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if name.contains(&b'/') {
        return Ok(CString::new(name)?);
    }
    let path = env.iter().find_map(|pair| pair.strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH);
    let mut failure = Errno::NOENT;
    for folder in path.split(|byte| *byte == b':') {
        // An empty part means the current folder: that is the old rule of PATH.
        let folder = if folder.is_empty() { b".".as_slice() } else { folder };
        let file = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name));
        match check(&file) {
            Ok(()) => return Ok(CString::new(file.into_os_string().into_vec())?),
            // A file that may not be executed is the better reason, should nothing else be found.
            // A folder of PATH that may not be entered is no reason.
            Err(Errno::ACCESS) if file.exists() => failure = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(failure.into())
}

fn check(file: &PathBuf) -> Result<(), Errno> {
    access(file, Access::EXEC_OK)?;
    if file.is_dir() { Err(Errno::ACCESS) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(name: &str, path: &str) -> Result<String, Option<i32>> {
        let env = [b"A=PATH=x".to_vec(), format!("PATH={path}").into_bytes()];
        let found = find(name.as_bytes(), &env);
        found.map(|path| path.into_string().unwrap()).map_err(|error| error.raw_os_error())
    }

    #[test]
    fn names_are_looked_up_in_the_environment_of_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let tool = folder.path().join("tool");
        std::fs::write(&tool, "").unwrap();
        assert_eq!(look("tool", &path), Err(Some(Errno::ACCESS.raw_os_error())));
        assert_eq!(look("none", &path), Err(Some(Errno::NOENT.raw_os_error())));
        assert_eq!(look("", &path), Err(Some(Errno::NOENT.raw_os_error())));
        rustix::fs::chmod(&tool, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        assert_eq!(look("tool", &format!("/nowhere:{path}")), Ok(format!("{path}/tool")));
        assert_eq!(look("./tool", ""), Ok("./tool".to_owned()));
    }

    #[test]
    fn a_folder_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tool")).unwrap();
        let found = look("tool", folder.path().to_str().unwrap());
        assert_eq!(found, Err(Some(Errno::ACCESS.raw_os_error())));
    }
}
