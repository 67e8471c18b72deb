//! What a neuron shows of the machine, taken hold of as mounts that nobody sees yet.
//!
//! As root it is the launcher that does so, with its rights on the way to a folder; otherwise the
//! neuron's first process, in a namespace where it may.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::failure::{At, Outcome, refused};
use super::plan::{Base, FolderWrites, HostId, Plan};
use crate::sys::namespace::{MountChange, change_mount};

/// A part of the base that is there.
#[derive(Debug)]
pub(super) enum Part {
    /// A link, such as `/bin` in most systems.
    Link { path: PathBuf, target: PathBuf },
    /// A folder.
    Folder { path: PathBuf, is_mapped: bool, tree: Option<OwnedFd> },
}

/// All that is shown.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) parts: Vec<Part>,
    pub(super) layer: Option<OwnedFd>,
    pub(super) folder: Option<OwnedFd>,
    pub(super) egress: Option<OwnedFd>,
    pub(super) files: Vec<OwnedFd>,
}

impl Sources {
    /// Finds out which parts of the base there are.
    pub(super) fn find(plan: &Plan) -> Outcome<Self> {
        let mut parts = Vec::new();
        match &plan.base {
            Base::Root(path) => {
                parts.push(Part::Folder { path: path.clone(), is_mapped: true, tree: None });
            }
            Base::Host(folders) => {
                for folder in folders {
                    let path = folder.path.clone();
                    let Ok(facts) = std::fs::symlink_metadata(&path) else { continue };
                    if facts.is_symlink() {
                        let target = std::fs::read_link(&path).at("read a link of the base")?;
                        parts.push(Part::Link { path, target });
                    } else if facts.is_dir() {
                        parts.push(Part::Folder { path, is_mapped: folder.is_mapped, tree: None });
                    }
                }
            }
        }
        Ok(Self { parts, ..Self::default() })
    }

    /// Takes hold of everything.
    pub(super) fn open(&mut self, plan: &Plan, is_root: bool) -> Outcome<()> {
        // A process without rights on the machine may not part a folder from what is mounted in
        // it.
        let depth = if is_root { OpenTreeFlags::empty() } else { OpenTreeFlags::AT_RECURSIVE };
        for part in &mut self.parts {
            if let Part::Folder { path, tree, .. } = part {
                *tree = Some(hold(path, depth).at(&format!("open {}", path.display()))?);
            }
        }
        if self.layer.is_none() && !plan.keeps_layers_in_memory() {
            self.layer = Some(hold(&plan.layer, depth).at("open layer")?);
        }
        if let Some(folder) = &plan.folder {
            self.folder = Some(hold(&folder.path, depth).at("open folder")?);
        }
        if let Some(egress) = &plan.egress {
            self.egress = Some(hold(&egress.folder, depth).at("open egress.folder")?);
        }
        for file in &plan.files {
            let step = format!("open {}", file.outside.display());
            self.files.push(hold(&file.outside, OpenTreeFlags::empty()).at(&step)?);
        }
        Ok(())
    }

    /// Lets go of everything but the folder of the way out.
    pub(super) fn into_egress(self) -> Option<OwnedFd> {
        self.egress
    }

    /// Lets what belongs to others on the machine belong to the neuron inside. `map` is a user
    /// namespace in which 0 stands for the neuron's host id. Returns why that is not so for some.
    pub(super) fn map(
        &self,
        plan: &Plan,
        map: BorrowedFd<'_>,
        other: impl FnOnce(u32, u32) -> Outcome<OwnedFd>,
    ) -> Outcome<Vec<String>> {
        let mut reasons = Vec::new();
        let change = MountChange { map: Some(map), ..MountChange::default() };
        for part in &self.parts {
            if let Part::Folder { path, is_mapped: true, tree: Some(tree) } = part
                && let Err(error) = change_mount(tree, change)
            {
                reasons.push(unmapped(path, &error));
            }
        }
        let Some((folder, tree)) = plan.folder.as_ref().zip(self.folder.as_ref()) else {
            return Ok(reasons);
        };
        let facts = fstat(tree).at("look at folder")?;
        let host = plan.host_id.unwrap_or(HostId { uid: 0, gid: 0 });
        let mapped = if (facts.st_uid, facts.st_gid) == (0, 0) {
            change_mount(tree, change)
        } else if (facts.st_uid, facts.st_gid) == (host.uid, host.gid) {
            Ok(())
        } else {
            let map = other(facts.st_uid, facts.st_gid)?;
            change_mount(tree, MountChange { map: Some(map.as_fd()), ..change })
        };
        if let Err(error) = mapped {
            if folder.writes == FolderWrites::Through {
                let cause = format!(
                    "{}: {error}; a folder on this file system can only be written to by a neuron \
                     without a host id of its own",
                    folder.path.display()
                );
                return Err(refused("map the owner of folder", cause));
            }
            reasons.push(unmapped(&folder.path, &error));
        }
        Ok(reasons)
    }
}

fn unmapped(path: &Path, error: &std::io::Error) -> String {
    format!(
        "files in {} keep their owners and cannot be changed in the neuron's layer: {error}; the \
         file system or the kernel has no id-mapped mounts",
        path.display()
    )
}

/// Takes hold of what is at a path, following no link at its end.
fn hold(path: &Path, depth: OpenTreeFlags) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    open_tree(CWD, path, flags | depth)
}

/// Opens a folder below another one, following no link.
pub(super) fn step_into(parent: impl AsFd, name: &std::ffi::OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
