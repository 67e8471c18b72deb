//! Following a session: its events as frames, from a place on, without a gap.

use std::collections::VecDeque;

use protocol::event::SessionEnd;
use protocol::{EventBody, SessionId};
use runtime_api::{Delivery, Error, Handle, Overflow, Position, Shown, Subscription};

use crate::projection::{Became, Projection};
use crate::record::Records;

/// Events for which a follower lends credit at a time: enough that neither side waits for each
/// single one.
pub(crate) const CREDIT: usize = 256;

/// Events that are read at a time to close a gap.
const PAGE: usize = 1_000;

/// A session that is watched.
#[derive(Debug)]
pub(crate) struct Follower {
    handle: Handle,
    session: SessionId,
    projection: Projection,
    subscription: Subscription,
    /// What was read of the log where the subscription has nothing.
    ready: VecDeque<Became>,
    /// Whether the log may have more than was seen.
    is_behind: bool,
    /// Whether the subscription has ended.
    is_over: bool,
    /// Why the session was closed.
    closed: Option<SessionEnd>,
}

impl Follower {
    /// Follows a session that is open here, from its last event on. The session waits for a
    /// follower that takes nothing.
    ///
    /// # Errors
    /// `session_not_found`, and faults.
    pub(crate) async fn begin(
        handle: &Handle,
        records: &Records,
        session: &SessionId,
    ) -> Result<Self, Error> {
        let projection = records.at_end(handle, session).await?;
        Self::from(handle, session, projection).await
    }

    /// Follows a session from a place on.
    ///
    /// # Errors
    /// `session_not_found`, and faults.
    pub(crate) async fn from(
        handle: &Handle,
        session: &SessionId,
        projection: Projection,
    ) -> Result<Self, Error> {
        // What was recorded since comes first.
        let position = Position::After(projection.at);
        let subscription = handle.subscribe(session, position, Overflow::Pace(CREDIT)).await?;
        Ok(Self {
            handle: handle.clone(),
            session: session.clone(),
            projection,
            subscription,
            ready: VecDeque::new(),
            is_behind: false,
            is_over: false,
            closed: None,
        })
    }

    /// Returns what the session has become.
    pub(crate) fn projection(&self) -> &Projection {
        &self.projection
    }

    /// Returns why the session was closed, once it was.
    pub(crate) fn closed(&self) -> Option<SessionEnd> {
        self.closed
    }

    /// Waits for what the next event becomes; none once the session is not open here any more and
    /// its log was read to its end. Cancel-safe.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Became>, Error> {
        loop {
            if let Some(became) = self.ready.pop_front() {
                return Ok(Some(became));
            }
            if self.is_behind {
                self.read_on().await?;
                continue;
            }
            if self.is_over {
                return Ok(None);
            }
            match self.subscription.next().await {
                Some(Delivery::Event(event)) => {
                    if let EventBody::SessionClosed(closed) = &event.body {
                        self.closed = Some(closed.reason);
                    }
                    self.take(&event);
                }
                Some(Delivery::Gap { .. }) => self.is_behind = true,
                None => {
                    self.is_over = true;
                    // What is erased has no log any more.
                    self.is_behind = self.closed.is_none();
                }
            }
        }
    }

    /// Reads some of what is recorded beyond what was seen.
    async fn read_on(&mut self) -> Result<(), Error> {
        let page = self.handle.recorded(&self.session, self.projection.at, PAGE).await?;
        self.is_behind = !page.is_empty();
        page.iter().for_each(|event| self.take(event));
        Ok(())
    }

    fn take(&mut self, event: &Shown) {
        let became = self.projection.fold_shared(event);
        if !became.is_nothing() {
            self.ready.push_back(became);
        }
    }
}
