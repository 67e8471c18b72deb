//! What lies over `/etc` of the machine: its secrets and its own settings are not there, and who
//! the neuron is stands in a few files.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat, statat};

use super::failure::{At, Outcome};
use super::plan::{Base, INSIDE_ID, INSIDE_USER, Plan};
use super::source::step_into;
use crate::handover::write_all;

/// The folder with the mask, as a lower layer of overlayfs.
pub(super) const FOLDER: &str = "mask";

/// What of `/etc` is not shown: passwords, keys, and how this machine is run. What is for root
/// alone could not be read anyway, since `/etc` is not id-mapped; a system that left one of these
/// open is covered as well.
const HIDDEN: &[&str] = &[
    "NetworkManager",
    "cloud",
    "containerd",
    "credstore",
    "credstore.encrypted",
    "crypttab",
    "docker",
    "environment",
    "exports",
    "fstab",
    "group-",
    "gshadow",
    "gshadow-",
    "krb5.keytab",
    "kubernetes",
    "letsencrypt",
    "machine-id",
    "narthex",
    "netplan",
    "openvpn",
    "passwd-",
    "ppp",
    "rancher",
    "samba",
    "shadow",
    "shadow-",
    "ssh",
    "subgid",
    "subgid-",
    "subuid",
    "subuid-",
    "sudo.conf",
    "sudo_logsrvd.conf",
    "sudoers",
    "sudoers.d",
    "wireguard",
    "wpa_supplicant",
];

/// Makes the mask in the current folder. `below` is the folder that it will lie over: `/etc` or a
/// whole root.
pub(super) fn make(plan: &Plan, below: impl AsFd) -> Outcome<()> {
    let step = "mask /etc";
    mkdirat(CWD, FOLDER, Mode::from_raw_mode(0o755)).at(step)?;
    let mut folder = step_into(CWD, FOLDER.as_ref()).at(step)?;
    let is_root = matches!(plan.base, Base::Root(_));
    if is_root {
        mkdirat(&folder, "etc", Mode::from_raw_mode(0o755)).at(step)?;
        folder = step_into(&folder, "etc".as_ref()).at(step)?;
    }
    let name = &plan.name;
    write(&folder, "hostname", &format!("{name}\n"))?;
    write(&folder, "hosts", &format!("127.0.0.1 localhost {name}\n::1 localhost\n"))?;
    // There is no name service: names are resolved by the proxy.
    write(&folder, "resolv.conf", "")?;
    if is_root {
        // Who its users are, and what is secret in it, is its own matter.
        return Ok(());
    }
    let home = plan.home.display();
    let users = format!(
        "root:x:0:0:root:/:/bin/false\n\
         {INSIDE_USER}:x:{INSIDE_ID}:{INSIDE_ID}::{home}:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/bin/false\n"
    );
    write(&folder, "passwd", &users)?;
    let groups = format!("root:x:0:\n{INSIDE_USER}:x:{INSIDE_ID}:\nnogroup:x:65534:\n");
    write(&folder, "group", &groups)?;
    for name in HIDDEN {
        if statat(&below, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            // A character device of number 0 is what overlayfs takes for "not there".
            mknodat(&folder, *name, FileType::CharacterDevice, Mode::empty(), 0).at(step)?;
        }
    }
    Ok(())
}

fn write(folder: &OwnedFd, name: &str, text: &str) -> Outcome<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::from_raw_mode(0o644)).at("write /etc")?;
    write_all(&file, text.as_bytes()).at("write /etc")
}
