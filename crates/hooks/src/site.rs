//! Where a hook runs, and what it is told of its project.

use std::path::{Path, PathBuf};

use driver_api::Workspace;

/// The variables that tell a hook where the project is; existing hooks know the second one.
const PROJECT_VARIABLES: [&str; 2] = ["NARTHEX_PROJECT_DIR", "CLAUDE_PROJECT_DIR"];

/// Where a hook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The folder it runs in.
    pub(crate) folder: PathBuf,
    /// The top of its project.
    project: PathBuf,
}

impl Site {
    /// Where hooks run that belong to no folder: in the session's working folder. The top of the
    /// project is then the top of the repository, or the working folder outside of one.
    pub(crate) async fn of_session(workspace: &dyn Workspace) -> Self {
        let cwd = workspace.cwd();
        let mut project = cwd;
        for folder in cwd.ancestors() {
            if is_top(workspace, folder).await {
                project = folder;
                break;
            }
        }
        Self { folder: cwd.to_owned(), project: project.to_owned() }
    }

    /// Where a hook runs that belongs to this folder, or to none.
    pub(crate) fn of_hook(&self, folder: Option<&Path>) -> Self {
        match folder {
            Some(folder) => Self { folder: folder.to_owned(), project: folder.to_owned() },
            None => self.clone(),
        }
    }

    /// The variables of a hook.
    pub(crate) fn variables(&self) -> Vec<(String, Option<String>)> {
        let project = self.project.to_string_lossy();
        PROJECT_VARIABLES.map(|name| (name.to_owned(), Some(project.clone().into_owned()))).to_vec()
    }
}

/// Tells whether a repository begins here. `.git` is a file in a linked working tree.
async fn is_top(workspace: &dyn Workspace, folder: &Path) -> bool {
    let path = folder.join(".git");
    let Some(path) = path.to_str() else { return false };
    workspace.locate(path).await.is_ok_and(|located| located.stat.is_some())
}
