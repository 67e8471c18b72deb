//! A search in a workspace that is not on this machine: its files are read and searched here, so
//! that patterns mean the same everywhere.

use std::path::PathBuf;
use std::sync::Arc;

use driver_api::{Contents, EntryKind, Located, ToolContext, ToolError, WorkspaceError};
use futures_util::{StreamExt, stream};

use super::{FileSink, Report, Search};
use crate::survey::{Found, Survey};
use crate::walk;

/// The largest file that is read for a search: sources and logs of a day fit, and a few at a time
/// do not fill the memory. A note of the result says how large.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Bytes that one search reads in all: half a minute over a slow line.
const SEARCH_BYTES_MAX: u64 = 512 << 20;

/// [`SEARCH_BYTES_MAX`] as people read it.
const SEARCH_BYTES_SHOWN: &str = "512 MiB of files";

/// How many files are on their way at a time: enough that nobody waits for each answer.
const AHEAD_MAX: usize = 8;

/// Bytes of a file from which on it is searched on a thread that may block.
const LARGE_BYTES: usize = 64 * 1024;

/// Searches a folder or a file that was judged.
pub(super) async fn run(
    search: Search,
    place: &Located,
    context: &ToolContext,
) -> Result<Report, ToolError> {
    let mut report = Report::new(search.kind, search.limit);
    let files = if search.is_file {
        vec![Candidate { real: place.real.clone(), size: place.stat.map_or(0, |stat| stat.size) }]
    } else {
        let mut survey = Survey::of(place, None, context).await?;
        let mut found = std::mem::take(&mut survey.found);
        found.retain(|entry| {
            let is_file = entry.kind == EntryKind::File;
            search.covers(&place.real.join(&entry.inner), is_file) && !survey.hides(entry)
        });
        found.sort_by(|a, b| a.inner.cmp(&b.inner));
        report.unseen = survey.unseen;
        found.into_iter().map(|entry| Candidate::of(place, entry)).collect()
    };
    let search = Arc::new(search);
    let root = place.root.as_ref();
    let read = |file: Candidate| async move {
        if context.cancel.is_cancelled() || file.size > FILE_BYTES_MAX {
            return (file, None);
        }
        let located = Located { real: file.real.clone(), root: root.cloned(), stat: None };
        let contents = context.workspace.read(&located, FILE_BYTES_MAX).await;
        (file, Some(contents))
    };
    let mut coming = stream::iter(files).map(read).buffered(AHEAD_MAX);
    let mut total = 0;
    while let Some((file, contents)) = coming.next().await {
        if context.cancel.is_cancelled() {
            report.unseen.is_stopped = true;
            break;
        }
        match contents {
            None | Some(Err(WorkspaceError::TooLarge { .. })) => report.unseen.large += 1,
            // It went, or became something else, since it was listed.
            Some(Err(WorkspaceError::NotFound(_) | WorkspaceError::Unfit(_))) => {}
            Some(Err(WorkspaceError::Fault(fault))) => return Err(fault.into()),
            Some(Err(_)) => report.unseen.unreadable += 1,
            Some(Ok(contents)) => {
                total += contents.bytes.len() as u64;
                report = search_contents(&search, report, file.real, contents, context).await?;
            }
        }
        if report.is_full() {
            break;
        }
        if total > SEARCH_BYTES_MAX {
            report.unseen.cut_at = Some(SEARCH_BYTES_SHOWN);
            break;
        }
    }
    Ok(report)
}

/// A file that may hold something.
#[derive(Debug)]
struct Candidate {
    real: PathBuf,
    size: u64,
}

impl Candidate {
    fn of(place: &Located, found: Found) -> Self {
        Self { real: place.real.join(found.inner), size: found.size }
    }
}

async fn search_contents(
    search: &Arc<Search>,
    mut report: Report,
    path: PathBuf,
    contents: Contents,
    context: &ToolContext,
) -> Result<Report, ToolError> {
    let (search, cancel) = (Arc::clone(search), context.cancel.clone());
    let bytes = contents.bytes;
    let is_large = bytes.len() >= LARGE_BYTES;
    let work = move || {
        let look =
            |sink: &mut FileSink<'_>| search.searcher().search_slice(&search.matcher, &bytes, sink);
        search.search_file(&path, &mut report, &cancel, look);
        report
    };
    if is_large { walk::blocking(work).await } else { Ok(work()) }
}
