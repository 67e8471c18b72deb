//! Working folders: real, and inside a root.

use std::io;
use std::path::{Path, PathBuf};

use http_kit::Problem;

use crate::error::Code;
use crate::query::shown;

/// Resolves the folder that a request names: absolute, or relative to the first root; the first
/// root itself where it names none. Returns its real path.
pub(crate) async fn resolve(roots: &[PathBuf], named: Option<String>) -> Result<String, Problem> {
    let roots = roots.to_vec();
    let looked = tokio::task::spawn_blocking(move || look(&roots, named.as_deref())).await;
    looked.unwrap_or_else(|error| {
        tracing::error!(%error, "looking at a folder died");
        Err(Problem::internal())
    })
}

/// Tells whether a real path is a root or beneath one.
pub(crate) fn is_inside(roots: &[PathBuf], real: &Path) -> bool {
    roots.iter().any(|root| real.starts_with(root))
}

/// The folder is inside none of the roots.
pub(crate) fn outside(roots: &[PathBuf]) -> Problem {
    let names: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
    let names = names.join(", ");
    Code::CwdOutsideRoots.says(format!("cwd: is outside the roots of this server: {names}"))
}

/// What has become of the folder of a stored session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there, inside a root.
    Here,
    /// It is not there any more; the place is inside a root.
    Gone,
    /// It is outside the roots, or was replaced by a link: it is not what the session was
    /// created in.
    Outside,
}

/// Looks at the folder of a stored session again: what it was resolved to when it was created may
/// have been replaced since.
pub(crate) async fn standing(roots: &[PathBuf], cwd: &str) -> Result<Standing, Problem> {
    let found = standings(roots, vec![PathBuf::from(cwd)]).await?;
    Ok(found.first().copied().unwrap_or(Standing::Outside))
}

/// [`standing`] of several.
pub(crate) async fn standings(
    roots: &[PathBuf],
    folders: Vec<PathBuf>,
) -> Result<Vec<Standing>, Problem> {
    let roots = roots.to_vec();
    let looked = tokio::task::spawn_blocking(move || {
        folders.iter().map(|folder| stands(&roots, folder)).collect()
    });
    looked.await.map_err(|error| {
        tracing::error!(%error, "looking at folders died");
        Problem::internal()
    })
}

fn stands(roots: &[PathBuf], folder: &Path) -> Standing {
    if !is_inside(roots, folder) {
        return Standing::Outside;
    }
    match folder.canonicalize() {
        Ok(real) if real != folder => Standing::Outside,
        Ok(real) if real.is_dir() => Standing::Here,
        Ok(_) => Standing::Gone,
        Err(_) => {
            let real = nearest(folder, LINKS_MAX);
            let is_same =
                real.is_some_and(|real| is_inside(roots, &real) && folder.starts_with(&real));
            if is_same { Standing::Gone } else { Standing::Outside }
        }
    }
}

/// Links that are followed to find where a path that is not there would be.
const LINKS_MAX: u32 = 40;

/// Returns the real path of the deepest folder on a path that is there; links that lead nowhere
/// are followed up to where they end.
fn nearest(path: &Path, links_max: u32) -> Option<PathBuf> {
    for place in path.ancestors() {
        if let Ok(real) = place.canonicalize() {
            return Some(real);
        }
        if let (Ok(target), Some(folder), Some(left)) =
            (place.read_link(), place.parent(), links_max.checked_sub(1))
        {
            return nearest(&folder.join(target), left);
        }
    }
    None
}

fn look(roots: &[PathBuf], named: Option<&str>) -> Result<String, Problem> {
    let Some(first) = roots.first() else { return Err(outside(roots)) };
    let path = named.map_or_else(|| first.clone(), |named| first.join(named));
    let wrong = |what: String| Problem::validation(format!("cwd: {what}"));
    let name = shown(named.unwrap_or("."));
    let real = path.canonicalize().map_err(|error| {
        // What is there outside the roots, and what not, is nobody's business.
        if !nearest(&path, LINKS_MAX).is_some_and(|real| is_inside(roots, &real)) {
            return outside(roots);
        }
        match error.kind() {
            io::ErrorKind::NotFound => wrong(format!("{name} is not there, expected a folder")),
            io::ErrorKind::NotADirectory => wrong(format!("{name} leads through a file")),
            _ => wrong(format!("{name} cannot be opened: {error}")),
        }
    })?;
    if !is_inside(roots, &real) {
        return Err(outside(roots));
    }
    if !real.is_dir() {
        return Err(wrong(format!("{name} is no folder")));
    }
    let text = real.into_os_string().into_string();
    text.map_err(|_| wrong(format!("{name} resolves to a path that is no UTF-8")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_are_resolved_before_they_are_held_against_the_roots() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().canonicalize().unwrap();
        let (root, other, outside) = (base.join("root"), base.join("other"), base.join("outside"));
        for folder in [&root.join("in/deep"), &other, &outside, &base.join("root-of-another")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(root.join("file"), "").unwrap();
        symlink(root.join("in"), root.join("alias")).unwrap();
        symlink(&outside, root.join("door")).unwrap();
        symlink(&other, root.join("to-other")).unwrap();
        symlink(root.join("loop"), root.join("loop")).unwrap();
        symlink(outside.join("missing"), root.join("to-nothing")).unwrap();
        std::fs::write(outside.join("file"), "").unwrap();
        let roots = [root.clone(), other.clone()];
        let real = |path: &Path| Ok(path.to_str().unwrap().to_owned());
        let outside_text = outside.to_str().unwrap().to_owned();
        for (named, expected) in [
            (None, real(&root)),
            (Some("."), real(&root)),
            (Some("in/deep"), real(&root.join("in/deep"))),
            (Some("alias"), real(&root.join("in"))),
            (Some("in/../in/deep/.."), real(&root.join("in"))),
            (Some("to-other"), real(&other)),
            (Some("../other"), real(&other)),
            (Some(outside_text.as_str()), Err("cwd_outside_roots")),
            (Some("door"), Err("cwd_outside_roots")),
            (Some("in/../../outside"), Err("cwd_outside_roots")),
            (Some("../root-of-another"), Err("cwd_outside_roots")),
            (Some("/"), Err("cwd_outside_roots")),
            // Whether something is there outside is not told.
            (Some("door/missing"), Err("cwd_outside_roots")),
            (Some("to-nothing"), Err("cwd_outside_roots")),
            (Some("to-nothing/x"), Err("cwd_outside_roots")),
            (Some("../missing"), Err("cwd_outside_roots")),
            (Some("../outside/file"), Err("cwd_outside_roots")),
            (Some("../outside/file/x"), Err("cwd_outside_roots")),
            (Some("/a\0b"), Err("cwd_outside_roots")),
            (Some("missing"), Err("validation_error")),
            (Some("missing/deep"), Err("validation_error")),
            (Some("file"), Err("validation_error")),
            (Some("file/x"), Err("validation_error")),
            (Some("loop"), Err("validation_error")),
            (Some("a\0b"), Err("validation_error")),
        ] {
            let found = look(&roots, named).map_err(|problem| {
                assert!(problem.message.starts_with("cwd: "), "{}", problem.message);
                problem.code
            });
            assert_eq!(found, expected, "{named:?}");
        }
    }

    #[test]
    fn a_folder_that_was_replaced_is_not_the_one_it_was() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().canonicalize().unwrap();
        let (root, outside) = (base.join("root"), base.join("outside"));
        std::fs::create_dir_all(root.join("here")).unwrap();
        std::fs::create_dir_all(outside.join("deep")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(root.join("here"), root.join("alias")).unwrap();
        symlink(outside.join("missing"), root.join("to-nothing")).unwrap();
        for (folder, expected) in [
            (root.clone(), Standing::Here),
            (root.join("here"), Standing::Here),
            (root.join("gone"), Standing::Gone),
            (root.join("file"), Standing::Gone),
            (root.join("here/gone/deep"), Standing::Gone),
            (root.join("out"), Standing::Outside),
            (root.join("out/deep"), Standing::Outside),
            (root.join("out/gone"), Standing::Outside),
            (root.join("alias"), Standing::Outside),
            (root.join("alias/gone"), Standing::Outside),
            (root.join("to-nothing"), Standing::Outside),
            (outside.clone(), Standing::Outside),
            (PathBuf::from("here"), Standing::Outside),
        ] {
            assert_eq!(stands(std::slice::from_ref(&root), &folder), expected, "{folder:?}");
        }
    }
}
