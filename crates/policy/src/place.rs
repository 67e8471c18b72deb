//! Patterns over paths: where a file rule holds.
//!
//! A pattern is relative to the working folder; a leading `/` or `~/` makes it absolute. `*`
//! matches within one name, `**` (alone between slashes) matches any number of folders, `\*` is a
//! literal star and every other character stands for itself.

use std::path::{Component, Path};

use crate::call::Homes;
use crate::wildcard::Wildcard;

/// Where a pattern starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// At the working folder, this many folders up.
    Cwd(usize),
    /// At the home folder.
    Home,
    /// At `/`.
    Root,
}

/// One name of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// `**`: any number of folders, none too.
    Folders,
    /// One name.
    One(Wildcard),
}

/// A pattern over real paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    base: Base,
    names: Vec<Name>,
}

/// How much of a path a pattern has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The whole path: for rules that allow.
    Exact,
    /// The path or a folder above it: for rules that protect.
    Beneath,
}

impl Place {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let (mut base, rest) = if let Some(rest) = text.strip_prefix('/') {
            (Base::Root, rest)
        } else if let Some(rest) = text.strip_prefix("~/") {
            (Base::Home, rest)
        } else if text == "~" {
            (Base::Home, "")
        } else {
            (Base::Cwd(0), text)
        };
        let mut names: Vec<Name> = Vec::new();
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => match (&mut base, names.pop()) {
                    (_, Some(Name::One(_))) | (Base::Root, None) => {}
                    (Base::Cwd(up), None) => *up += 1,
                    (Base::Home, None) => return Err("'..' leads above the home folder".into()),
                    (_, Some(Name::Folders)) => {
                        return Err("'..' after '**' can stand for any folder".into());
                    }
                },
                "**" => names.push(Name::Folders),
                other if other.contains("**") => {
                    return Err(format!("'**' in '{other}' must stand alone between slashes"));
                }
                other => names.push(Name::One(Wildcard::new(other))),
            }
        }
        Ok(Self { base, names })
    }

    /// Tells whether a real path fits; `None` when the home folder would have to be known.
    pub(crate) fn matches(
        &self,
        real: &Path,
        cwd: &Path,
        homes: Homes<'_>,
        reach: Reach,
    ) -> Option<bool> {
        match self.base {
            Base::Root => self.fits_below(Path::new("/"), real, reach),
            Base::Home => {
                let own = homes.own.and_then(|home| self.fits_below(home, real, reach));
                match (reach, own) {
                    // What allows is about the place where the call acts alone.
                    (Reach::Exact, own) | (_, own @ Some(true)) => own,
                    (Reach::Beneath, own) => {
                        homes.outer.map_or(own, |home| self.fits_below(home, real, reach))
                    }
                }
            }
            // More `..` than folders stay at the root, as in the file system.
            Base::Cwd(up) => {
                let base = cwd.ancestors().nth(up).unwrap_or(Path::new("/"));
                self.fits_below(base, real, reach)
            }
        }
    }

    fn fits_below(&self, base: &Path, real: &Path, reach: Reach) -> Option<bool> {
        let Ok(inner) = real.strip_prefix(base) else { return Some(false) };
        let mut parts = Vec::new();
        for component in inner.components() {
            match component {
                Component::Normal(name) => parts.push(name.as_encoded_bytes()),
                Component::CurDir => {}
                // A path with `..` is not real; nothing can be said about it.
                _ => return None,
            }
        }
        Some(match reach {
            Reach::Exact => fits(&self.names, &parts),
            Reach::Beneath => {
                (0..=parts.len()).any(|end| fits(&self.names, parts.get(..end).unwrap_or(&parts)))
            }
        })
    }
}

/// Matches names against the parts of a path; as in [`Wildcard::matches`] one way back is enough.
fn fits(names: &[Name], parts: &[&[u8]]) -> bool {
    let (mut name, mut at) = (0, 0);
    let mut folders: Option<(usize, usize)> = None;
    while let Some(part) = parts.get(at) {
        match names.get(name) {
            Some(Name::Folders) => {
                folders = Some((name, at));
                name += 1;
                continue;
            }
            Some(Name::One(wildcard)) if wildcard.matches(part) => {
                name += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        let Some((from_name, from_at)) = folders else { return false };
        folders = Some((from_name, from_at + 1));
        name = from_name + 1;
        at = from_at + 1;
    }
    names.iter().skip(name).all(|name| *name == Name::Folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str, reach: Reach) -> Option<bool> {
        let place = Place::new(pattern).unwrap();
        let homes = Homes::from(Some(Path::new("/home/me")));
        place.matches(Path::new(path), Path::new("/w/app"), homes, reach)
    }

    #[test]
    fn of_two_homes_one_is_for_what_allows_and_both_for_what_protects() {
        let place = Place::new("~/x").unwrap();
        let homes = Homes { own: Some(Path::new("/home/n")), outer: Some(Path::new("/home/me")) };
        for (path, exact, beneath) in [
            ("/home/n/x", true, true),
            ("/home/me/x", false, true),
            ("/home/me/x/y", false, true),
            ("/home/me/z", false, false),
        ] {
            let matches = |reach| place.matches(Path::new(path), Path::new("/w"), homes, reach);
            let found = (matches(Reach::Exact), matches(Reach::Beneath));
            assert_eq!(found, (Some(exact), Some(beneath)), "{path}");
        }
        let unknown = Homes { own: None, outer: Some(Path::new("/home/me")) };
        let path = Path::new("/home/me/x");
        assert_eq!(place.matches(path, Path::new("/w"), unknown, Reach::Exact), None);
    }

    #[test]
    fn exact_patterns() {
        for (pattern, path, expected) in [
            ("a.rs", "/w/app/a.rs", true),
            ("./a.rs", "/w/app/a.rs", true),
            ("a.rs", "/w/app/src/a.rs", false),
            ("*.rs", "/w/app/a.rs", true),
            ("*.rs", "/w/app/src/a.rs", false),
            ("**/*.rs", "/w/app/a.rs", true),
            ("**/*.rs", "/w/app/src/x/a.rs", true),
            ("src/**", "/w/app/src", true),
            ("src/**", "/w/app/src/x/y", true),
            ("src/**/y", "/w/app/src/y", true),
            ("src/**/y/**/z", "/w/app/src/y/a/y/z", true),
            ("src/*", "/w/app/src/x/y", false),
            ("**", "/w/app/anything/at/all", true),
            ("**", "/w/other", false),
            ("/etc/hosts", "/etc/hosts", true),
            ("/**", "/etc/hosts", true),
            ("~/x", "/home/me/x", true),
            ("~", "/home/me", true),
            ("../lib/*", "/w/lib/a", true),
            ("a/../b", "/w/app/b", true),
            ("../../../../x", "/x", true),
            ("app/[id]/{a,b}?", "/w/app/app/[id]/{a,b}?", true),
            (r"a\*", "/w/app/a*", true),
            (r"a\*", "/w/app/ab", false),
        ] {
            assert_eq!(matches(pattern, path, Reach::Exact), Some(expected), "{pattern} {path}");
        }
    }

    #[test]
    fn protecting_patterns_reach_beneath() {
        assert_eq!(matches("secrets", "/w/app/secrets/a/key", Reach::Beneath), Some(true));
        assert_eq!(matches("secrets", "/w/app/secrets/a/key", Reach::Exact), Some(false));
        assert_eq!(matches("secrets", "/w/app/secrets2", Reach::Beneath), Some(false));
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let place = Place::new("~/x").unwrap();
        let cwd = Path::new("/w");
        let nowhere = Homes::default();
        assert_eq!(place.matches(Path::new("/home/me/x"), cwd, nowhere, Reach::Exact), None);
        assert_eq!(matches("**", "/w/app/../../etc/passwd", Reach::Exact), None);
    }

    #[test]
    fn unclear_patterns_are_refused() {
        for pattern in ["src/**.rs", "a**", "**/..", "~/../x"] {
            assert!(Place::new(pattern).is_err(), "{pattern}");
        }
    }
}
