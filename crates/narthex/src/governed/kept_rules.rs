//! Rules that people allowed for good: one file for the user, one for each project. They lie in
//! the home folder, never in a repository.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use driver_api::{Fault, RuleBook};
use policy::{Layer, LayerName, Rule};
use protocol::event::Persist;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{GovernError, read_text, write_private};

/// How many rules one file holds. Nobody says "always" so often without meaning a wider rule.
const RULES_MAX: usize = 2_000;

/// A file of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The project's folder, for whoever looks at the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<PathBuf>,
    /// The rules, oldest first.
    #[serde(default)]
    allow: Vec<String>,
}

/// Keeps rules in the home folder.
#[derive(Debug)]
pub struct KeptRules {
    home: PathBuf,
}

impl KeptRules {
    /// Keeps rules beneath a home folder.
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    /// Returns the layers of the kept rules that hold in a folder.
    ///
    /// # Errors
    /// When a file cannot be read; it names the file and the rule.
    pub fn layers(&self, cwd: &Path) -> Result<Vec<Layer>, GovernError> {
        let layers = [self.layer(LayerName::User, cwd)?, self.layer(LayerName::Project, cwd)?];
        Ok(layers.into_iter().flatten().collect())
    }

    /// Returns the rules that were kept everywhere; none where there are none.
    ///
    /// # Errors
    /// As [`KeptRules::layers`].
    pub(crate) fn everywhere(&self) -> Result<Option<Layer>, GovernError> {
        self.layer(LayerName::User, &self.home)
    }

    /// Returns the rules that were kept for the project of a folder; none where there are none.
    ///
    /// # Errors
    /// As [`KeptRules::layers`].
    pub(crate) fn of_project(&self, cwd: &Path) -> Result<Option<Layer>, GovernError> {
        self.layer(LayerName::Project, cwd)
    }

    fn layer(&self, name: LayerName, cwd: &Path) -> Result<Option<Layer>, GovernError> {
        let path = self.file_of(name, cwd);
        let kept = read(&path)?;
        let allow = Rule::parse_all(&kept.allow)
            .map_err(|error| GovernError::Wrong(format!("{}: {error}", path.display())))?;
        Ok((!allow.is_empty()).then(|| Layer { allow, is_kept: true, ..Layer::new(name) }))
    }

    /// Returns the file of a layer of kept rules.
    pub fn file_of(&self, layer: LayerName, cwd: &Path) -> PathBuf {
        let level = match layer {
            LayerName::Project => Persist::Project,
            _ => Persist::User,
        };
        self.file(level, cwd)
    }

    /// Returns the file of a level.
    fn file(&self, level: Persist, cwd: &Path) -> PathBuf {
        match level {
            Persist::Project => {
                let root = top(cwd);
                let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
                let name: String =
                    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
                self.home.join("projects").join(name).join("rules.toml")
            }
            Persist::User | Persist::Session => self.home.join("rules.toml"),
        }
    }

    fn write(&self, level: Persist, cwd: &Path, rule: &str) -> Result<(), GovernError> {
        let rule = lasting(level, cwd, rule)?;
        let path = self.file(level, cwd);
        let folder = path.parent().unwrap_or(&self.home);
        make_folder(folder)?;
        // Two sessions may say "always" at the same time; neither rule may be lost.
        let lock = folder.join("rules.lock");
        let locked = File::options().create(true).append(true).mode(0o600).open(&lock);
        let locked = locked.map_err(|error| GovernError::unreadable(&lock, &error))?;
        locked.lock().map_err(|error| GovernError::unreadable(&lock, &error))?;
        let mut kept = read(&path)?;
        if kept.allow.contains(&rule) {
            return Ok(());
        }
        if kept.allow.len() >= RULES_MAX {
            let problem = format!("{}: holds {RULES_MAX} rules already", path.display());
            return Err(GovernError::Failed(problem));
        }
        if level == Persist::Project {
            kept.root = Some(top(cwd));
        }
        kept.allow.push(rule);
        let text = toml::to_string(&kept)
            .map_err(|error| GovernError::Failed(format!("write {}: {error}", path.display())))?;
        write_private(&path, &text)
    }
}

#[async_trait]
impl RuleBook for KeptRules {
    async fn keep(&self, level: Persist, root: &Path, rule: &str) -> Result<(), Fault> {
        self.write(level, root, rule).map_err(|error| Fault::new(error.to_string()))
    }
}

/// Writes a rule so that it means the same in every folder where it will hold.
fn lasting(level: Persist, cwd: &Path, rule: &str) -> Result<String, GovernError> {
    let wrong = |error: policy::RuleError| GovernError::Wrong(error.to_string());
    let rule: Rule = rule.parse().map_err(wrong)?;
    if let Some(program) = rule.relative_program().filter(|_| level == Persist::User) {
        return Err(GovernError::Wrong(format!(
            "'{program}' of {rule} is another program in every folder; such a rule can be kept for \
             this project or session, not everywhere"
        )));
    }
    Ok(rule.anchored(cwd).map_err(wrong)?.to_string())
}

/// Returns the top of the repository that a folder lies in, or the folder itself.
fn top(cwd: &Path) -> PathBuf {
    let top = cwd.ancestors().find(|folder| folder.join(".git").exists());
    top.unwrap_or(cwd).to_owned()
}

fn make_folder(folder: &Path) -> Result<(), GovernError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| GovernError::Failed(format!("make {}: {error}", folder.display())))
}

fn read(path: &Path) -> Result<Kept, GovernError> {
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(GovernError::unreadable(path, &error)),
    };
    toml::from_str(&text)
        .map_err(|error| GovernError::Wrong(format!("{}: {}", path.display(), error.message())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rules_are_kept_once_and_apart() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::create_dir_all(project.join("src")).unwrap();
        let kept = KeptRules::new(&home);
        let rules = [
            (Persist::User, "run_shell(git status *)"),
            (Persist::Project, "run_shell(make *)"),
            (Persist::Project, "run_shell(make *)"),
        ];
        for (level, rule) in rules {
            kept.keep(level, &project.join("src"), rule).await.unwrap();
        }
        let shown = |cwd: &Path| -> Vec<(LayerName, Vec<String>)> {
            let layers = kept.layers(cwd).unwrap();
            let shown = layers
                .iter()
                .map(|layer| (layer.name, layer.allow.iter().map(ToString::to_string).collect()));
            shown.collect()
        };
        let user = (LayerName::User, vec!["run_shell(git status *)".to_owned()]);
        let own = (LayerName::Project, vec!["run_shell(make *)".to_owned()]);
        assert_eq!(shown(&project), [user.clone(), own]);
        assert_eq!(shown(folder.path()), [user]);
        assert!(!project.join(".narthex").exists(), "nothing is written into the project");
    }

    #[test]
    fn a_rule_means_the_same_wherever_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("project");
        fs::create_dir_all(cwd.join(".git")).unwrap();
        let kept = KeptRules::new(&folder.path().join("home"));
        for level in [Persist::Project, Persist::User] {
            kept.write(level, &cwd, "edit_file(src/**)").unwrap();
        }
        let expected = format!("edit_file({}/src/**)", cwd.display());
        for layer in kept.layers(&cwd).unwrap() {
            assert!(layer.is_kept);
            let rules: Vec<String> = layer.allow.iter().map(ToString::to_string).collect();
            assert_eq!(rules, [expected.as_str()]);
        }
        let program = "run_shell(./build.sh *)";
        let refused = kept.write(Persist::User, &cwd, program).unwrap_err().to_string();
        assert!(refused.contains("'./build.sh'") && refused.contains("project"), "{refused}");
        kept.write(Persist::Project, &cwd, program).unwrap();
        assert_eq!(kept.layers(folder.path()).unwrap().len(), 1, "the user's alone");
    }

    #[test]
    fn many_writers_lose_no_rule() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let home = folder.path();
                scope.spawn(move || {
                    let kept = KeptRules::new(home);
                    let rule = format!("run_shell(make part{writer})");
                    kept.write(Persist::User, home, &rule).unwrap();
                });
            }
        });
        assert_eq!(read(&folder.path().join("rules.toml")).unwrap().allow.len(), 8);
    }
}
