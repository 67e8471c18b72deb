//! What ignore files name: `.gitignore`, `.ignore`, and what a repository keeps to itself.

use std::path::{Path, PathBuf};

use driver_api::{Located, Workspace};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::small_text;

/// Bytes of an ignore file: such as people write are far smaller.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How many folders with ignore files one survey looks into: each costs two or three questions to
/// the workspace.
const FOLDERS_MAX: usize = 5_000;

/// The ignore files of a folder and of all above it.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    /// From the outermost folder to the innermost.
    open: Vec<Folder>,
    folders: usize,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// `.ignore`, which says the last word.
    own: Option<Gitignore>,
    /// `.gitignore`.
    git: Option<Gitignore>,
    /// `.git/info/exclude`.
    exclude: Option<Gitignore>,
}

impl Ignored {
    /// Reads the ignore files of the folders above a surveyed one, as far as its root.
    pub(super) async fn above(folder: &Located, workspace: &dyn Workspace) -> Self {
        let mut ignored = Self::default();
        let top = folder.root.as_deref().unwrap_or(&folder.real);
        let mut above: Vec<&Path> =
            folder.real.ancestors().skip(1).take_while(|path| path.starts_with(top)).collect();
        above.reverse();
        for path in above {
            ignored.enter(path, |_| true, workspace).await;
        }
        ignored
    }

    /// Reads the ignore files of a folder, as far as they are there, and leaves those that it does
    /// not lie in.
    pub(super) async fn enter(
        &mut self,
        path: &Path,
        is_there: impl Fn(&Path) -> bool,
        workspace: &dyn Workspace,
    ) {
        self.leave(path);
        let names = [".ignore", ".gitignore", ".git"];
        let has_any = names.iter().any(|name| is_there(&path.join(name)));
        if !has_any || self.folders >= FOLDERS_MAX {
            return;
        }
        self.folders += 1;
        let read = async |name: &str, of: &str| {
            if !is_there(&path.join(of)) {
                return None;
            }
            let text = small_text(&path.join(name), FILE_BYTES_MAX, workspace).await?;
            let mut builder = GitignoreBuilder::new(path);
            for line in text.lines() {
                // A line that cannot be read names nothing, as in a local folder.
                let _unreadable = builder.add_line(None, line);
            }
            builder.build().ok().filter(|file| !file.is_empty())
        };
        let own = read(".ignore", ".ignore").await;
        let git = read(".gitignore", ".gitignore").await;
        let exclude = read(".git/info/exclude", ".git").await;
        if own.is_some() || git.is_some() || exclude.is_some() {
            self.open.push(Folder { path: path.to_owned(), own, git, exclude });
        }
    }

    fn leave(&mut self, path: &Path) {
        self.open.retain(|folder| path.starts_with(&folder.path));
    }

    /// Tells whether an ignore file names a path. Its parents are not named.
    pub(super) fn names(&mut self, path: &Path, is_folder: bool) -> bool {
        self.leave(path);
        let kinds: [fn(&Folder) -> Option<&Gitignore>; 3] =
            [|it| it.own.as_ref(), |it| it.git.as_ref(), |it| it.exclude.as_ref()];
        for kind in kinds {
            // The innermost folder that speaks of the path decides.
            let said = self.open.iter().rev().filter_map(kind);
            let said = said.map(|file| file.matched(path, is_folder)).find(|it| !it.is_none());
            match said {
                Some(Match::Ignore(_)) => return true,
                Some(Match::Whitelist(_)) => return false,
                Some(Match::None) | None => {}
            }
        }
        false
    }
}
