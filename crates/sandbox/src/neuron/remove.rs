//! Removing what a neuron left, whatever it left.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder with all that is in it. Nobody else may be at work in it.
///
/// A neuron can nest folders deeper than any path or stack is long, and take away its own right
/// to enter them. So every folder is first moved up beside the others, where its depth is one, and
/// made enterable. What could not be removed is still there then, and the next try goes on.
pub(super) fn remove_tree(folder: &Path) -> Result<(), Errno> {
    let top = match openat(CWD, folder, FOLDER, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut moved = 0_u64;
    loop {
        let folders = sweep(&top, &top, &mut moved)?;
        if folders.is_empty() {
            break;
        }
        for name in folders {
            let inner = enter(&top, &name)?;
            sweep(&inner, &top, &mut moved)?;
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    drop(top);
    unlinkat(CWD, folder, AtFlags::REMOVEDIR)
}

/// Removes everything of a folder but its folders, which are moved up where they are not there
/// already. Returns the names of those that were.
fn sweep(folder: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> Result<Vec<CString>, Errno> {
    let is_top = std::ptr::eq(folder, top);
    let mut folders = Vec::new();
    // Read to the end before anything is changed: what a listing shows of later changes is open.
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push((name.to_owned(), entry.file_type()));
        }
    }
    for (name, kind) in names {
        if kind != FileType::Directory {
            match unlinkat(folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // Not every file system says what an entry is.
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(error),
            }
        }
        if is_top {
            folders.push(name);
        } else {
            move_up(folder, &name, top, moved)?;
        }
    }
    Ok(folders)
}

fn move_up(folder: &OwnedFd, name: &CString, top: &OwnedFd, moved: &mut u64) -> Result<(), Errno> {
    // Whoever is not root must be allowed to write in a folder to give it another parent.
    drop(enter(folder, name)?);
    loop {
        *moved += 1;
        let fresh = format!("moved-{moved}");
        match renameat_with(folder, name, top, &fresh, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            // The file system cannot tell. Over a folder that is not empty it is refused.
            Err(Errno::INVAL | Errno::NOSYS) => match renameat(folder, name, top, &fresh) {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                other => return other,
            },
            other => return other,
        }
    }
}

/// Opens a folder that is known to be one and lets its owner into it.
fn enter(folder: &OwnedFd, name: &CString) -> Result<OwnedFd, Errno> {
    let open = openat(folder, name, FOLDER, Mode::empty());
    let inner = match open {
        Err(Errno::ACCESS) => {
            chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
            openat(folder, name, FOLDER, Mode::empty())?
        }
        opened => opened?,
    };
    // One that may be read need not be one that may be changed.
    rustix::fs::fchmod(&inner, Mode::RWXU)?;
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn whatever_is_there_goes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, outside) = (folder.path().join("tree"), folder.path().join("outside"));
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        std::fs::create_dir_all(tree.join("moved-1/b")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        std::fs::write(tree.join("a/b/file"), "").unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        symlink("none", tree.join("dangling")).unwrap();
        let closed = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(tree.join("a/b"), closed(0o000)).unwrap();
        std::fs::set_permissions(tree.join("a"), closed(0o500)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn folders_may_be_nested_deeper_than_a_path_is_long() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut at = openat(CWD, &tree, FOLDER, Mode::empty()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = openat(&at, "deep", FOLDER, Mode::empty()).unwrap();
        }
        drop(at);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }
}
