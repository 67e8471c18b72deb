//! The root of a neuron, built in its own mount namespace from what was taken hold of.
//!
//! One tmpfs holds everything that is needed on the way, and in its folder `root` what becomes the
//! root: only that part of it is seen afterwards. Every step goes from descriptor to descriptor
//! and follows no link, because parts of the layer were written by a neuron before.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount,
    fsopen, mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{fchdir, pivot_root};

use super::failure::{At, Outcome};
use super::layer::Layer;
use super::notes::Notes;
use super::plan::{Base, FolderWrites, Plan, WORKSPACE, layout};
use super::source::{Part, Sources, step_into};
use super::{mask, protect};
use crate::sys::namespace::{MountChange, change_mount};

/// How much of the machine's memory the files may take that lie in no layer: `/dev/shm`, `/run`
/// and what a command writes to `/` itself. Browsers and data tools use tens of megabytes there.
const MEMORY_FILES_MAX: u64 = 256 << 20;

/// How many such files there may be: each takes about a kilobyte of the kernel's memory.
const MEMORY_FILES_COUNT_MAX: u32 = 64 << 10;

/// How many bytes of a capped layer there are per file: what the smallest file takes that holds
/// anything. Without a limit of their number, empty files would take kernel memory without end.
const BYTES_PER_FILE: u64 = 4 << 10;

/// How many files the smallest capped layer may hold: what a neuron is made of, and a small
/// project.
const CAPPED_FILES_MIN: u64 = 16 << 10;

/// Every machine has it, it is not needed on the way (what is shown of it was taken hold of), and
/// everybody may enter it.
const STAGE: &str = "/etc";

/// The devices that a program may expect. None of them gives access to anything.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

/// What of `/proc` is covered: read-only, it would still tell about the machine or its keys.
const COVERED: [&str; 4] = ["kcore", "keys", "sysrq-trigger", "timer_list"];

/// Attributes of everything that comes from the machine or from the neuron's layers.
const PLAIN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// The mount attributes as the system call takes them.
fn attributes(bits: u64) -> MountAttrFlags {
    MountAttrFlags::from_bits_retain(u32::try_from(bits).unwrap_or_default())
}

/// Builds the root and makes it the root of this process. Returns the folder of the way out.
pub(super) fn build(plan: &Plan, sources: Sources, notes: &mut Notes) -> Outcome<Option<OwnedFd>> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).at("part from the machine's mounts")?;
    let stage = stage(plan)?;
    let mut builder = Builder { plan, stage, root: None, notes };
    builder.lay_layer(sources.layer, &sources.parts)?;
    builder.lay_base(sources.parts)?;
    builder.lay_own_folders()?;
    builder.lay_folder(sources.folder)?;
    builder.lay_devices()?;
    builder.lay_processes()?;
    for (file, tree) in plan.files.iter().zip(sources.files) {
        let change = MountChange { set: PLAIN | libc::MOUNT_ATTR_RDONLY, ..MountChange::default() };
        change_mount(&tree, change).at("show a file")?;
        builder.attach_file(&tree, &file.inside)?;
    }
    builder.enter()?;
    Ok(sources.egress)
}

/// Mounts the tmpfs for all of it and stands in it.
fn stage(plan: &Plan) -> Outcome<OwnedFd> {
    let step = "mount tmpfs";
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).at(step)?;
    let capped = plan.limits.disk_bytes.filter(|_| plan.keeps_layers_in_memory());
    let size = capped.unwrap_or(MEMORY_FILES_MAX);
    fsconfig_set_string(&context, "size", size.to_string()).at(step)?;
    let files = capped.map_or(u64::from(MEMORY_FILES_COUNT_MAX), |size| {
        (size / BYTES_PER_FILE).max(CAPPED_FILES_MIN)
    });
    fsconfig_set_string(&context, "nr_inodes", files.to_string()).at(step)?;
    fsconfig_set_string(&context, "mode", "0755").at(step)?;
    fsconfig_create(&context).at(step)?;
    let stage = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes(PLAIN)).at(step)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&stage, "", CWD, STAGE, flags).at("attach tmpfs")?;
    fchdir(&stage).at("enter tmpfs")?;
    Ok(stage)
}

/// The folders of a layer, in the order in which they have to be made.
pub(super) fn layer_folders(plan: &Plan, parts: &[Part]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = [layout::HOME, layout::TMP].iter().map(PathBuf::from).collect();
    let mut pairs = Vec::new();
    match &plan.folder {
        None => folders.push(layout::WORKSPACE.into()),
        Some(folder) if folder.writes == FolderWrites::Layer => pairs.push(PathBuf::from("folder")),
        Some(_) => {}
    }
    folders.push(layout::SYSTEM.into());
    pairs.extend(parts.iter().filter_map(|part| match part {
        Part::Folder { path, .. } => Some(Path::new(layout::SYSTEM).join(layer_name(plan, path))),
        Part::Link { .. } => None,
    }));
    for pair in pairs {
        let both = ["upper", "work"].map(|name| pair.join(name));
        folders.push(pair);
        folders.extend(both);
    }
    folders
}

/// The name of a base folder in the layer.
fn layer_name(plan: &Plan, path: &Path) -> String {
    match plan.base {
        Base::Root(_) => "root".to_owned(),
        Base::Host(_) => path.to_string_lossy().trim_matches('/').replace('/', "%"),
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    stage: OwnedFd,
    /// What becomes the root; absent until it is mounted.
    root: Option<OwnedFd>,
    notes: &'a mut Notes,
}

impl Builder<'_> {
    fn root(&self) -> &OwnedFd {
        self.root.as_ref().unwrap_or(&self.stage)
    }

    fn folder(&self, name: &str) -> Outcome<()> {
        mkdirat(&self.stage, name, Mode::from_raw_mode(0o755)).at(&format!("make {name}"))
    }

    /// Puts the layer into its place on the way.
    fn lay_layer(&self, layer: Option<OwnedFd>, parts: &[Part]) -> Outcome<()> {
        self.folder("layer")?;
        if let Some(layer) = layer {
            let change = MountChange { set: PLAIN, ..MountChange::default() };
            change_mount(&layer, change).at("restrict layer")?;
            return move_to(&layer, &self.stage, "layer").at("attach layer");
        }
        for folder in layer_folders(self.plan, parts) {
            let path = Path::new("layer").join(folder);
            mkdirat(&self.stage, &path, Mode::from_raw_mode(0o755)).at("make layer")?;
        }
        Ok(())
    }

    fn lay_base(&mut self, parts: Vec<Part>) -> Outcome<()> {
        self.folder("root")?;
        if matches!(self.plan.base, Base::Host(_)) {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
            let root = open_tree(&self.stage, "root", flags).at("open root")?;
            move_to(&root, &self.stage, "root").at("attach root")?;
            self.root = Some(root);
        }
        for (number, part) in parts.into_iter().enumerate() {
            match part {
                Part::Link { path, target } => {
                    let (parent, name) = self.parent_of(&path)?;
                    symlinkat(&target, parent, name).at(&format!("link {}", path.display()))?;
                }
                Part::Folder { path, tree: Some(tree), .. } => {
                    self.lay_part(number, &path, &tree)?;
                }
                Part::Folder { tree: None, .. } => {}
            }
        }
        Ok(())
    }

    /// Shows one folder of the base, with the neuron's layer over it.
    fn lay_part(&mut self, number: usize, path: &Path, tree: &OwnedFd) -> Outcome<()> {
        let shown = path.display();
        let is_root = matches!(self.plan.base, Base::Root(_));
        let mount = if self.plan.layers.has(Layer::Overlay) {
            let lower = format!("low{number}");
            self.folder(&lower)?;
            move_to(tree, &self.stage, &lower).at(&format!("attach {shown}"))?;
            let is_masked = is_root || path == Path::new("/etc");
            let lower = if is_masked {
                mask::make(self.plan, tree)?;
                format!("{}:{lower}", mask::FOLDER)
            } else {
                lower
            };
            let upper = format!("layer/{}/{}", layout::SYSTEM, layer_name(self.plan, path));
            overlay(&lower, &upper).at(&format!("mount overlay over {shown}"))?
        } else {
            let change =
                MountChange { set: PLAIN | libc::MOUNT_ATTR_RDONLY, map: None, is_recursive: true };
            change_mount(tree, change).at(&format!("make {shown} read-only"))?;
            tree.try_clone().at("copy a descriptor")?
        };
        if is_root {
            move_to(&mount, &self.stage, "root").at("attach root")?;
            self.root = Some(mount);
            return Ok(());
        }
        self.attach(&mount, path)
    }

    /// Home, temporary files, and the working folder where the machine gives none.
    fn lay_own_folders(&self) -> Outcome<()> {
        let root = self.root();
        for name in ["dev", "home", "proc", "run", "tmp", "var"] {
            make_folder(root, name.as_ref()).at(&format!("make /{name}"))?;
        }
        let var = step_into(root, "var".as_ref()).at("open /var")?;
        match symlinkat("../run", &var, "run") {
            // A root filesystem has its own.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).at("link /var/run"),
        }
        self.show_layer(layout::HOME, &self.plan.home)?;
        self.show_layer(layout::TMP, Path::new("/tmp"))?;
        self.show_layer(layout::TMP, Path::new("/var/tmp"))?;
        if self.plan.folder.is_none() {
            self.show_layer(layout::WORKSPACE, Path::new(WORKSPACE))?;
        }
        Ok(())
    }

    fn show_layer(&self, name: &str, path: &Path) -> Outcome<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let step = format!("open {name} of layer");
        let tree = open_tree(&self.stage, format!("layer/{name}"), flags).at(&step)?;
        self.attach(&tree, path)
    }

    /// The folder of the machine that the neuron works in.
    fn lay_folder(&mut self, tree: Option<OwnedFd>) -> Outcome<()> {
        let Some((folder, tree)) = self.plan.folder.as_ref().zip(tree) else { return Ok(()) };
        if folder.writes == FolderWrites::Layer {
            if !self.plan.layers.has(Layer::Overlay) {
                let change = MountChange {
                    set: PLAIN | libc::MOUNT_ATTR_RDONLY,
                    map: None,
                    is_recursive: true,
                };
                change_mount(&tree, change).at("make folder read-only")?;
                return self.attach(&tree, &folder.path);
            }
            self.folder("folder")?;
            move_to(&tree, &self.stage, "folder").at("attach folder")?;
            let mount = overlay("folder", "layer/folder").at("mount overlay over folder")?;
            return self.attach(&mount, &folder.path);
        }
        let change = MountChange { set: PLAIN, map: None, is_recursive: true };
        change_mount(&tree, change).at("restrict folder")?;
        self.attach(&tree, &folder.path)?;
        if self.plan.layers.has(Layer::Protected) {
            protect::lay(&tree, &folder.path, self.notes)?;
        }
        Ok(())
    }

    fn lay_devices(&self) -> Outcome<()> {
        let dev = step_into(self.root(), "dev".as_ref()).at("open /dev")?;
        for name in DEVICES {
            self.cover(&format!("/dev/{name}"), &dev, name, true)?;
        }
        for (name, target) in [
            ("fd", "/proc/self/fd"),
            ("ptmx", "pts/ptmx"),
            ("stderr", "/proc/self/fd/2"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
        ] {
            match symlinkat(target, &dev, name) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).at(&format!("link /dev/{name}")),
            }
        }
        for name in ["pts", "shm"] {
            make_folder(&dev, name.as_ref()).at(&format!("make /dev/{name}"))?;
        }
        let everybody = Mode::from_raw_mode(0o1777);
        chmodat(&dev, "shm", everybody, AtFlags::empty()).at("open /dev/shm to all")?;
        let options = [("newinstance", None), ("ptmxmode", Some("0666")), ("mode", Some("0620"))];
        let attributes = attributes(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC);
        let terminals = mount("devpts", &options, attributes).at("mount /dev/pts")?;
        move_to(&terminals, &dev, "pts").at("attach /dev/pts")
    }

    fn lay_processes(&self) -> Outcome<()> {
        let is_closed = self.plan.layers.has(Layer::ProcReadOnly);
        let mut bits = PLAIN | libc::MOUNT_ATTR_NOEXEC;
        if is_closed {
            bits |= libc::MOUNT_ATTR_RDONLY;
        }
        let tree = if self.plan.layers.has(Layer::Pid) {
            mount("proc", &[], attributes(bits)).at("mount /proc")?
        } else {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            let tree = open_tree(CWD, "/proc", flags).at("open /proc")?;
            let change = MountChange { set: bits, map: None, is_recursive: true };
            change_mount(&tree, change).at("restrict /proc")?;
            tree
        };
        move_to(&tree, self.root(), "proc").at("attach /proc")?;
        if is_closed {
            let proc = step_into(self.root(), "proc".as_ref()).at("open /proc")?;
            for name in COVERED {
                self.cover("/dev/null", &proc, name, false)?;
            }
        }
        Ok(())
    }

    /// Lays a device of the machine over a file, which is made where `is_new`, and passed over
    /// where it is not there otherwise.
    fn cover(&self, device: &str, folder: &OwnedFd, name: &str, is_new: bool) -> Outcome<()> {
        let step = format!("lay {device} over {name}");
        if is_new {
            make_file(folder, name.as_ref()).at(&step)?;
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, device, flags).at(&step)?;
        // What is written to a device goes to its driver all the same; its mode and times are the
        // machine's.
        let bits = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY;
        change_mount(&tree, MountChange { set: bits, ..MountChange::default() }).at(&step)?;
        match move_to(&tree, folder, name) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) if !is_new => Ok(()),
            Err(error) => Err(error).at(&step),
        }
    }

    /// Opens the folder above a path inside, making what is not there, and returns it with the
    /// last name.
    fn parent_of<'p>(&self, path: &'p Path) -> Outcome<(OwnedFd, &'p OsStr)> {
        let step = || format!("make way to {}", path.display());
        let mut folder = self.root().try_clone().at(&step())?;
        let mut names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let mut name = names.next().unwrap_or_default();
        for next in names {
            make_folder(&folder, name).at(&step())?;
            folder = step_into(&folder, name).at(&step())?;
            name = next;
        }
        Ok((folder, name))
    }

    fn attach(&self, tree: &OwnedFd, path: &Path) -> Outcome<()> {
        let (parent, name) = self.parent_of(path)?;
        let step = format!("attach {}", path.display());
        make_folder(&parent, name).at(&step)?;
        let place = step_into(&parent, name).at(&step)?;
        move_onto(tree, &place).at(&step)
    }

    fn attach_file(&self, tree: &OwnedFd, path: &Path) -> Outcome<()> {
        let (parent, name) = self.parent_of(path)?;
        let step = format!("attach {}", path.display());
        make_file(&parent, name).at(&step)?;
        move_to(tree, &parent, name).at(&step)
    }

    /// Makes it the root, and lets go of all else.
    fn enter(self) -> Outcome<()> {
        fchdir(self.root()).at("enter root")?;
        pivot_root(".", ".").at("pivot root")?;
        unmount(".", UnmountFlags::DETACH).at("let go of the machine's root")?;
        rustix::process::chdir("/").at("enter root")?;
        self.notes.have(Layer::Mount);
        for layer in [Layer::Overlay, Layer::ProcReadOnly, Layer::Disk] {
            let is_asked = layer != Layer::Disk || self.plan.limits.disk_bytes.is_some();
            if self.plan.layers.has(layer) && is_asked {
                self.notes.have(layer);
            }
        }
        Ok(())
    }
}

/// Mounts an overlay whose folders are named from the current one.
fn overlay(lower: &str, upper: &str) -> Result<OwnedFd, Errno> {
    let (above, work) = (format!("{upper}/upper"), format!("{upper}/work"));
    let options = [
        ("lowerdir", Some(lower)),
        ("upperdir", Some(above.as_str())),
        ("workdir", Some(work.as_str())),
        // Without rights on the machine the kernel keeps its notes in attributes of the user.
        ("userxattr", None),
    ];
    mount("overlay", &options, attributes(PLAIN))
}

fn mount(
    kind: &str,
    options: &[(&str, Option<&str>)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        match value {
            Some(value) => fsconfig_set_string(&context, *name, *value)?,
            None => fsconfig_set_flag(&context, *name)?,
        }
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn move_to(tree: &OwnedFd, folder: &OwnedFd, name: impl AsRef<OsStr>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", folder, name.as_ref(), flags)
}

/// Attaches a mount to exactly what a descriptor stands for.
pub(super) fn move_onto(tree: impl AsFd, place: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", place, "", flags)
}

/// Makes a folder where there is none.
pub(super) fn make_folder(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes an empty file where there is none.
fn make_file(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
}
